"""run_sweep(sweep, out): every part that is not there yet, on the engine of the caller's choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from logging import ERROR
from pathlib import Path
from typing import Any

from ..array_files import remove_remains
from ..errors import DraftSelectionError, InvalidArgument, InvalidDistribution
from ..optional import load
from .sharded import Done, Sweep, make_part, parquet_module

ENGINES = ("loky", "threading", "sequential", "dask", "ray")


@dataclass(frozen=True)
class Progress:
    """After a part: pairs done and in all, parts left, and what went wrong on the way (workers that died), in words."""

    rows: int
    of: int
    parts_left: int
    trouble: tuple[str, ...] = ()


class SweepFailed(DraftSelectionError, RuntimeError):
    """Workers died more often than was allowed. What they had written stays; the same call goes on from there."""


def run_sweep(
    sweep: Sweep, out: Path | str, tries: int = 3, advance: Callable[[Progress], object] | None = None
) -> tuple[str, ...]:
    """Write one parquet file a part into `out`; a part that is there, and whole, stays. The files are the same whatever the engine.

    The engine is joblib's: `with joblib.parallel_config(backend="dask"): run_sweep(...)`, or ours, `engine`. A kill at any
    moment loses the parts that were under way and nothing else; call again to go on. When a worker dies the parts that are
    missing are tried again, up to `tries` times in all, and what happened is returned, one line a death.
    Raises InvalidDistribution for a row that is no law (what is sound is written before), InvalidDrafts for a folder of another
    sweep, SweepFailed when the workers keep dying.
    """
    from joblib import delayed

    parquet_module()  # tell at once if it is not installed
    out = Path(out)
    sweep.claim(out)
    remove_remains(out, "part-")
    total = sum(shard.rows for shard in sweep.shards)
    trouble: list[str] = []
    refused: list[str] = []
    missing = sweep.missing(out)
    while missing and not refused:
        rows, left = total - sum(part.stop - part.start for part in missing), len(missing)
        try:
            for done in _as_they_end([delayed(make_part)(sweep, part, out) for part in missing]):
                refused += [done.refused] if done.refused else []
                rows, left = rows + done.rows, left - (not done.refused)
                if advance:
                    advance(Progress(rows, total, left, tuple(trouble)))
            break
        except Exception as error:  # of the engine: make_part returns what is wrong with the input
            said = " ".join(str(error).split())[:200]
            trouble.append(f"try {len(trouble) + 1}: {type(error).__name__}: {said}")
            missing = [part for part in missing if not part.is_in(out)]
            if len(trouble) >= tries:
                raise SweepFailed(
                    f"{len(missing)} of {len(sweep.parts)} parts are missing after {tries} tries;"
                    f" the last said {trouble[-1]}. Call again to go on, with fewer jobs if the memory ran out"
                ) from error
    if refused:
        raise InvalidDistribution(refused[0] + (f" (and {len(refused) - 1} parts more)" if len(refused) > 1 else ""))
    return tuple(trouble)


def _as_they_end(tasks: list[Any]) -> Iterator[Done]:
    """Results of the tasks, each as soon as it is there; in rounds on engines (ray) that give nothing before all is done."""
    from joblib import Parallel, effective_n_jobs

    try:
        work = Parallel(return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
    except ValueError:
        size = 8 * effective_n_jobs()
        for start in range(0, len(tasks), size):
            yield from Parallel(batch_size=1)(tasks[start : start + size])
        return
    yield from work(tasks)


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
