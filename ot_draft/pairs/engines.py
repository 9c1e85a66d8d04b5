"""Engines for the command line. Library code calls joblib and takes whatever engine its caller has configured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from logging import ERROR
from typing import Any

from ..errors import InvalidArgument
from ..optional import load

ENGINES = ("loky", "threading", "sequential", "dask", "ray")


@contextmanager
def engine(name: str = "loky", jobs: int = 1, address: str | None = None) -> Iterator[None]:
    """joblib's engine for what runs inside. dask, ray: a local cluster of `jobs` workers, or the cluster at the address.

    The workers of a cluster must see the shards and the output folder under the same paths as the caller.
    """
    from joblib import parallel_config

    if name not in ENGINES:
        raise InvalidArgument(f"there is no engine {name!r}: take {', '.join(ENGINES)}")
    with ExitStack() as stack:
        options: dict[str, Any] = {"n_jobs": jobs}
        if name == "dask":
            stack.enter_context(_dask(jobs, address))
        elif name == "ray":
            stack.enter_context(_ray(jobs, address))
        elif address is not None:
            raise InvalidArgument(f"engine {name} has no cluster: leave the address out, or take dask or ray")
        stack.enter_context(parallel_config(backend=name, **options))
        yield


def _dask(jobs: int, address: str | None) -> Any:
    Client = load("distributed", "dask").Client
    if address is not None:
        return Client(address)
    return Client(n_workers=jobs, threads_per_worker=1, dashboard_address=None)


@contextmanager
def _ray(jobs: int, address: str | None) -> Iterator[None]:
    ray = load("ray", "ray")
    register_ray = load("ray.util.joblib", "ray").register_ray
    if address is not None:
        ray.init(address=address, logging_level=ERROR)
    else:
        ray.init(num_cpus=jobs, include_dashboard=False, logging_level=ERROR, log_to_driver=False)
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()
