"""The plugins switch on where they are asked to, on the versions that they know, and refuse all else."""

from __future__ import annotations

import inspect
import sys
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from unittest import TestCase

import ot_draft_sglang as sglang
import pytest
from host_models import RejectionSampler, installed, of_vllm

from ot_draft import errors
from ot_draft.errors import MissingPackage
from ot_draft.integrations import host, vllm, vllm_runner_v2
from ot_draft.integrations.chains import CHAIN_RULES

V1, V2 = "vllm.v1.sample.rejection_sampler", "vllm.v1.worker.gpu.spec_decode.rejection_sampler"
TREE, CHAIN = "tree_speculative_sampling_target_only", "chain_speculative_sampling_triton"

# Parameters as the released wheels of vLLM 0.33.0 and SGLang 0.5.23 have them.
PARAMETERS = {
    "v1": "draft_token_ids num_draft_tokens max_spec_len cu_num_draft_tokens draft_probs target_logits bonus_token_ids"
    " sampling_metadata synthetic_mode synthetic_conditional_rates use_fp64_gumbel fly_window_size fly_entropy_threshold"
    " fly_entropy_top_k",
    "v2": "target_logits draft_logits draft_sampled cu_num_logits pos idx_mapping expanded_idx_mapping expanded_local_pos"
    " temperature seed num_speculative_steps synthetic_conditional_rates use_fp64 use_block_verification contexts watermarking"
    " watermarking_skip_mask watermark_key fly_window_size fly_entropy_threshold fly_entropy_top_k",
    "tree": "predicts accept_index accept_token_num candidates retrive_index retrive_next_token retrive_next_sibling"
    " uniform_samples uniform_samples_for_final_sampling target_probs draft_probs threshold_single threshold_acc deterministic",
}
PARAMETERS["chain"] = PARAMETERS["tree"] + " block_verification"


def function(name: str, drop: str = "") -> Any:
    """A function of the host, as far as its parameters go."""
    names = [parameter for parameter in PARAMETERS[name].split() if parameter != drop]
    stands: Any = eval(f"lambda {', '.join(names)}: None")
    return stands


class HookType(Enum):
    REPLACE = "replace"


class HookRegistry:
    hooks: dict[str, Any]

    @classmethod
    def register(cls, target: str, hook: Any, hook_type: HookType) -> None:
        assert hook_type is HookType.REPLACE
        cls.hooks[target] = hook


def with_vllm(monkeypatch: pytest.MonkeyPatch, found: str = "0.33.0", drop: str = "") -> None:
    own = type("RejectionSampler", (RejectionSampler,), dict(vars(RejectionSampler)))
    samplers = (
        {"rejection_sample": function("v1", drop), "RejectionSampler": own},
        {"rejection_sample": function("v2", drop)},
    )
    installed(monkeypatch, "vllm", found, dict(zip((V1, V2), samplers, strict=True)) | of_vllm(on_cpu=False))


def with_sglang(monkeypatch: pytest.MonkeyPatch, found: str = "0.5.23", tree: Any = None) -> None:
    HookRegistry.hooks = {}
    registry = {"HookRegistry": HookRegistry, "HookType": HookType}
    kernels = {TREE: tree or function("tree"), CHAIN: function("chain")}
    installed(monkeypatch, "sglang", found, {"sglang.srt.plugins.hook_registry": registry, sglang.MODULE: kernels})


@pytest.mark.parametrize("rule", CHAIN_RULES)
@pytest.mark.parametrize("build", ["", "+cu130"])
def test_vllm_rules_are_put_in_both_runners(rule: str, build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_vllm(monkeypatch, "0.33.0" + build)
    monkeypatch.setenv("OT_DRAFT_VLLM", rule)
    for _ in range(2):  # hosts may load a plugin twice
        vllm.plugin()
    for module, ours in ((V1, vllm.rejection_sample), (V2, vllm_runner_v2.rejection_sample)):
        put = sys.modules[module].rejection_sample  # type: ignore[attr-defined]
        assert isinstance(put, partial)
        assert (put.func, put.keywords) == (ours, {"rule": CHAIN_RULES[rule]})


@pytest.mark.parametrize(("rule", "name"), [("NaiveTarget", TREE), *((rule, CHAIN) for rule in CHAIN_RULES)])
def test_sglang_rules_are_hooked_to_what_they_replace(rule: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_sglang(monkeypatch)
    monkeypatch.setenv("OT_DRAFT_SGLANG", rule)
    sglang.plugin()
    (target,) = HookRegistry.hooks
    assert target == f"{sglang.MODULE}.{name}"
    hook = HookRegistry.hooks[target]
    assert hook is sglang.along_tree or hook.keywords == {"rule": CHAIN_RULES[rule]}


def test_a_log_is_given_to_what_is_put_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OT_DRAFT_AUDIT_LOG", str(tmp_path))
    with_vllm(monkeypatch)
    for _ in range(2):
        vllm.install("BlockVerification")
    logs = {id(sys.modules[module].rejection_sample.keywords["log"]) for module in (V1, V2)}  # type: ignore[attr-defined]
    assert len(logs) == 1
    with_sglang(monkeypatch)
    for rule in ("NaiveTarget", "BlockVerification"):
        sglang.install(rule)
    assert all(hook.keywords["log"] for hook in HookRegistry.hooks.values())
    assert list(tmp_path.iterdir()) == []  # nothing is there before the first token


def test_without_the_variable_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (vllm.VARIABLE, sglang.VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    with_vllm(monkeypatch, "9.9")
    with_sglang(monkeypatch, "9.9")
    before = sys.modules[V1].rejection_sample  # type: ignore[attr-defined]
    vllm.plugin()
    sglang.plugin()
    assert sys.modules[V1].rejection_sample is before  # type: ignore[attr-defined]
    assert HookRegistry.hooks == {}


@pytest.mark.parametrize("found", ["0.5.22", "0.6.0rc1", "1.0"])
def test_an_unknown_version_of_sglang_is_refused_with_what_to_do(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_sglang(monkeypatch, found)
    with pytest.raises(errors.UnsupportedHost) as refused:
        sglang.install("NaiveTarget")
    said = str(refused.value)
    assert all(
        text in said
        for text in (
            f"sglang must be sglang 0.5.23, got {found}",
            "Run  pip install sglang==0.5.23 ",
            "unset OT_DRAFT_SGLANG",
        )
    )


@pytest.mark.parametrize("found", ["0.33.1", "0.34.0+cu130"])
def test_a_version_of_vllm_that_nobody_read_is_taken_by_its_parameters_with_a_warning(
    found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_vllm(monkeypatch, found)
    with TestCase().assertLogs("vllm.ot_draft", "WARNING") as logged:
        vllm.install("BlockVerification")
    assert sys.modules[V1].rejection_sample.func is vllm.rejection_sample  # type: ignore[attr-defined]
    assert f"vLLM {found.partition('+')[0]} was not tested" in logged.output[0]
    with_vllm(monkeypatch, found, drop="draft_probs")
    with pytest.raises(errors.UnsupportedHost, match="rejection_sample takes"):
        vllm.install("BlockVerification")
    with_vllm(monkeypatch)
    with TestCase().assertNoLogs("vllm.ot_draft", "WARNING"):
        vllm.install("BlockVerification")


def test_the_second_runner_of_0_32_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_vllm(monkeypatch, "0.32.0")
    vllm.install("BlockVerification")
    with pytest.raises(errors.UnsupportedHost, match="VLLM_USE_V2_MODEL_RUNNER=0"):
        sys.modules[V2].rejection_sample(1)  # type: ignore[attr-defined]


def test_a_host_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "installed", lambda packages: None)
    with pytest.raises(MissingPackage, match="vllm is not installed"):
        vllm.install("BlockVerification")
    with pytest.raises(MissingPackage, match=r"no_such_host is not installed\. Run  pip install no_such_host"):
        host.check_version({"no_such_host": ("1",)}, "X")


def test_a_host_with_other_parameters_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with_vllm(monkeypatch)
    monkeypatch.setattr(sys.modules[V2], "rejection_sample", function("v2", drop="pos"))
    before = sys.modules[V1].rejection_sample  # type: ignore[attr-defined]
    with pytest.raises(errors.UnsupportedHost, match=f"{V2}.rejection_sample takes"):
        vllm.install("SpeculativeSampling")
    assert sys.modules[V1].rejection_sample is before  # type: ignore[attr-defined]
    with_sglang(monkeypatch)
    monkeypatch.setattr(sys.modules[sglang.MODULE], TREE, None)  # as on a platform without this kernel
    with pytest.raises(errors.UnsupportedHost, match="no such function on this platform"):
        sglang.install("NaiveTarget")


@pytest.mark.parametrize("install", [vllm.install, sglang.install])
def test_a_rule_that_is_not_lossless_there_is_refused(install: Any) -> None:
    with pytest.raises(
        errors.NotLossless, match=r"must be a lossless rule for this engine, one of .*BlockVerification, got KSeq"
    ):
        install("KSeq")


@pytest.mark.parametrize(
    ("name", "ours", "own"),
    [
        ("v1", vllm.rejection_sample, ["rule", "log"]),
        ("v2", vllm_runner_v2.rejection_sample, ["rule", "log"]),
        ("tree", sglang.along_tree, ["log"]),
        ("chain", sglang.along_chain, ["rule", "log"]),
    ],
)
def test_parameters_are_those_of_the_host(name: str, ours: Any, own: list[str]) -> None:
    assert list(inspect.signature(ours).parameters) == PARAMETERS[name].split() + own


@pytest.mark.parametrize("mode", [{"synthetic_mode": True}, {"fly_window_size": 2}])
def test_modes_that_are_not_lossless_are_refused(mode: dict[str, Any]) -> None:
    nothing: list[Any] = [None] * 8
    with pytest.raises(errors.NotLossless, match="Set it to 'standard', or unset OT_DRAFT_VLLM"):
        vllm.rejection_sample(*nothing, **mode, rule=CHAIN_RULES["BlockVerification"])
    other = {"synthetic_conditional_rates": 1} if "synthetic_mode" in mode else mode
    for refused in (other, {"contexts": 1}):
        with pytest.raises(errors.NotLossless, match="Unset them, or OT_DRAFT_VLLM"):
            vllm_runner_v2.rejection_sample(*nothing, None, None, 2, **refused, rule=CHAIN_RULES["BlockVerification"])
