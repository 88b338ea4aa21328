"""The guards of continuous integration hold, and each one turns red where it is violated in a copy of the sources."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import grimp
import pytest
from mypy import api as mypy
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bayesgrad
from docs import generated

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("bayesgrad", "derivations", "checks", "report")
"""From the ground up; the file pyproject.toml has them from the top down."""


def copy_of(tmp_path: Path, *parts: str) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "build", "records", "runs", "formal/build")
    for part in parts:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, tmp_path / part, ignore=ignored)
        else:
            (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, tmp_path / part)
    return tmp_path


def append(path: Path, line: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


# --- who may import whom ----------------------------------------------------------------------------------------------


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    return subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)


def contracts() -> list[dict[str, object]]:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    return tool["contracts"]


def test_every_contract_is_kept():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"Contracts: {len(contracts())} kept, 0 broken." in done.stdout


VIOLATIONS = {
    "floors": ("derivations/catalogue.py", "import checks.registry"),
    "evidence": ("report/filters.py", "def _peep() -> None:\n    from derivations import laws  # noqa: F401"),
    "core": ("bayesgrad/masks.py", "import sympy"),
    "torch": ("bayesgrad/torch.py", "import bayesgrad.testing.tolerance"),
    "circles": ("report/messages.py", "import report.context"),
    "results": ("derivations/attention/value_law.py", "def _peep() -> None:\n    import derivations.present"),
    "harnesses": ("bayesgrad/training/metrics.py", "import bayesgrad.testing.tolerance"),
}


def test_a_violation_of_each_contract_is_found(tmp_path):
    """All of them in one copy: each contract is broken by its own line, and an import inside a function counts."""
    assert {c["id"] for c in contracts()} == set(VIOLATIONS)
    root = copy_of(tmp_path, *FLOORS, "benchmarks", "pyproject.toml")
    for file, line in VIOLATIONS.values():
        append(root / file, line)
    done = lint_imports(root)
    assert done.returncode == 1
    assert "0 kept" in done.stdout, done.stdout[:3000]
    for contract in contracts():
        assert f"{contract['name'][:40]}" in done.stdout


def test_the_contract_of_the_core_names_every_module_of_the_core():
    """A new module of the package is guarded from its first day."""
    (core,) = (c for c in contracts() if c["id"] == "core")
    above = {"__init__", "__main__", "torch"}
    files = {f"bayesgrad.{path.stem}" for path in (ROOT / "bayesgrad").glob("*.py") if path.stem not in above}
    folders = {f"bayesgrad.{path.parent.name}" for path in (ROOT / "bayesgrad").glob("*/__init__.py")}
    assert set(core["source_modules"]) | set(core["forbidden_modules"]) >= files | folders
    assert not set(core["source_modules"]) & set(core["forbidden_modules"])


def test_no_contract_makes_an_exception():
    assert not [c["id"] for c in contracts() if "ignore_imports" in c or "allow_indirect_imports" in c]


def circles(graph: grimp.ImportGraph) -> list[set[str]]:
    """Modules that import one another. An import inside a function counts as any other."""
    ahead = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    reached = {m: graph.find_upstream_modules(m) for m in ahead}
    found: list[set[str]] = []
    for module in sorted(ahead):
        circle = {other for other in reached[module] if module in reached[other]} | {module}
        if len(circle) > 1 and circle not in found:
            found.append(circle)
    return found


@pytest.mark.parametrize("package", [*FLOORS, "benchmarks"])
def test_nothing_goes_in_a_circle(package):
    """What a type checker alone imports may: a signature can name a class of a module that needs this one."""
    graph = grimp.build_graph(package, cache_dir=None, exclude_type_checking_imports=True)
    assert circles(graph) == []


def test_a_circle_is_found():
    graph = grimp.ImportGraph()
    for importer, imported in (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")):
        graph.add_import(importer=importer, imported=imported)
    assert circles(graph) == [{"a", "b", "c"}]


# --- what a leading underscore means ----------------------------------------------------------------------------------


def is_module(root: Path, name: str) -> bool:
    path = root.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def borrowed(root: Path, folders: Iterable[str]) -> list[str]:
    """Names with a leading underscore that another file than their own uses.

    A *module* with an underscore belongs to its package, and every file of that package may import it.
    """
    found = []
    for path in (path for folder in folders for path in sorted((root / folder).rglob("*.py"))):
        package = ".".join(path.relative_to(root).parent.parts)
        modules: dict[str, str] = {}
        taken: list[str] = []
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        for node in nodes:
            if isinstance(node, ast.Import):
                modules |= {alias.asname or alias.name: alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                source = ".".join([*above, *filter(None, [node.module])])
                whole = {alias.asname or alias.name: f"{source}.{alias.name}" for alias in node.names}
                modules |= {name: full for name, full in whole.items() if is_module(root, full)}
                taken += [source, *(full for full in whole.values() if is_module(root, source))]
        taken += modules.values()
        for node in nodes:
            if isinstance(node, ast.Attribute) and is_module(root, source := modules.get(ast.unparse(node.value), ".")):
                taken.append(f"{source}.{node.attr}")
        for full in taken:
            source, _, name = full.rpartition(".")
            inside = is_module(root, full) and package.split(".")[: source.count(".") + 1] == source.split(".")
            if private(name) and is_module(root, source) and not inside:
                found.append(f"{path.relative_to(root)}: {full}")
    return sorted(set(found))


def test_an_underscore_means_internal_to_its_file():
    assert borrowed(ROOT, ("bayesgrad", "checks", "report", "benchmarks", "docs")) == []


BORROWERS = (
    "from checks.oracles.made import _name",
    "from checks.oracles.made import _name as name",
    "from checks.oracles import made\nmade._name()",
    "from .oracles import made as other\nother._name()",
    "def f():\n    import checks.oracles.made\n    return checks.oracles.made._name",
    "import bayesgrad._head",
    "from bayesgrad import _head",
    "from bayesgrad._head import Head",
)


@pytest.mark.parametrize("text", BORROWERS)
def test_a_borrowed_name_is_found(tmp_path, text):
    for name in ("bayesgrad/__init__.py", "bayesgrad/_head.py", "checks/oracles/__init__.py", "checks/oracles/made.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    harmless = "from __future__ import annotations\nfrom checks.oracles import made\nmade.name, made.__doc__, x._name\n"
    for name, what in (("checks/__init__.py", harmless), ("bayesgrad/heads.py", "from bayesgrad import _head")):
        (tmp_path / name).write_text(what, encoding="utf-8")
    assert borrowed(tmp_path, ("bayesgrad", "checks")) == []
    (tmp_path / "checks" / "user.py").write_text(text, encoding="utf-8")
    assert len(borrowed(tmp_path, ("bayesgrad", "checks"))) == 1


def detours(root: Path) -> list[str]:
    """Imports by name of a higher floor: ``importlib`` and ``__import__`` are what the contracts cannot see.

    Where the name is computed, no text of that file may name a module of a higher floor. Running a higher floor as a
    command, ``python -m checks``, is allowed.
    """
    found = []
    for height, floor in enumerate(FLOORS):
        higher = re.compile(rf"({'|'.join(FLOORS[height + 1 :])})(\.\w+)*") if FLOORS[height + 1 :] else None
        for path in sorted((root / floor).rglob("*.py")):
            if higher is None:
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if not (isinstance(node, ast.Call) and _imports(node.func) and node.args):
                    continue
                name = node.args[0]
                texts = [n.value for n in ast.walk(name) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                if not isinstance(name, ast.Constant):
                    texts += [
                        n.value
                        for n in ast.walk(tree)
                        if isinstance(n, ast.Constant) and isinstance(n.value, str) and "." in n.value
                    ]
                if any(higher.match(text) and re.fullmatch(r"[\w.]+", text) for text in texts):
                    found.append(f"{path.relative_to(root)}:{node.lineno}")
    return found


def _imports(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__", "run_module")


def test_there_is_no_detour_to_a_higher_floor():
    assert detours(ROOT) == []


@pytest.mark.parametrize(
    "line",
    [
        'import importlib\nimportlib.import_module("checks.registry")',
        'TABLES = ("report.merge",)\nfor t in TABLES:\n    __import__(t)',
        'from importlib import import_module\nimport_module(f"derivations.{1}")',
    ],
)
def test_a_detour_is_found(tmp_path, line):
    (tmp_path / "bayesgrad").mkdir()
    (tmp_path / "bayesgrad" / "sly.py").write_text(line)
    assert len(detours(tmp_path)) == 1


# --- one name, one job ------------------------------------------------------------------------------------------------

PLACES = {"__init__": "a package", "__main__": "its command", "conftest": "what pytest reads in each folder"}
"""Names that a tool prescribes."""

SAME_WORD = {
    "claims": "what is decided: in papers, in symbols, of somebody's kernel, about runs",
    "frame_precision": "the result and the experiment that watches it",
}
"""Names that stand for one thing seen from two floors, and why."""


def shared_names(files: Iterable[str]) -> dict[str, list[str]]:
    """The modules that share a file name though their jobs differ.

    A module of the core, such as bayesgrad/em.py, names a subject: each floor may have one module about it, and its
    oracle and its picture are of its name too. A task and the experiment on it share a name with their derivation.
    """
    found: dict[str, list[str]] = {}
    for file in sorted(files):
        found.setdefault(Path(file).stem, []).append(file)
    return {
        name: where
        for name, where in found.items()
        if len(where) > 1 and name not in PLACES and name not in SAME_WORD and not _one_subject(name, where)
    }


def _one_subject(name: str, where: Iterable[str]) -> bool:
    core = [f"{folder}/{name}.py" for folder in ("bayesgrad", "derivations", "checks/oracles", "report/pictures")]
    family = next((str(Path(file).parent) for file in where if file.startswith("derivations/")), "derivations")
    task = [f"{folder}/{name}.py" for folder in ("bayesgrad/tasks", "bayesgrad/training/experiments", family)]
    return any(subject[0] in where and set(where) <= set(subject) for subject in (core, task))


def modules() -> list[str]:
    """Every module but the examples that show what a user writes."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, capture_output=True)
    files = listed.stdout.decode().split() or [
        str(p.relative_to(ROOT)) for f in FLOORS for p in (ROOT / f).rglob("*.py")
    ]
    return [file for file in files if "/examples/" not in file and (ROOT / file).exists()]


def test_no_two_modules_of_one_name_have_different_jobs():
    assert shared_names(modules()) == {}


@pytest.mark.parametrize(
    "file",
    ["report/sections/ledger.py", "checks/em.py", "report/sections/tuning.py", "tests/store.py", "docs/bayes.py"],
)
def test_a_name_that_is_taken_is_found(file):
    assert set(shared_names([*modules(), file])) == {Path(file).stem}


def test_every_exception_is_needed():
    names = [Path(file).stem for file in modules()]
    assert [name for name in (*PLACES, *SAME_WORD) if names.count(name) < 2] == []


# --- types ------------------------------------------------------------------------------------------------------------

TYPED = """
import numpy as np
import bayesgrad as bg
from bayesgrad import bayes

q = np.ones((2, 3))
reveal_type(bg.softmax(q))
reveal_type(bg.attention_gradients(q, q, q, q).keys)
reveal_type(bg.causal_mask(2, 3, align="upper-left"))
reveal_type(bayes.entropy(q, units="nats"))
"""
WRONG = {
    'bg.causal_mask(2, 3, align="upper_left")': "causal_mask",
    'bg.cross_entropy(q, np.array([1, 2]), reduction="men")': "reduction",
    'bayes.entropy(q, units="nat")': "units",
    'bg.attention("no", 1, None)': "attention",
    'bg.attention(q, q, q, scale="one")': "scale",
    "bg.softmax(q).no_such_attribute": "no_such_attribute",
}
UNTYPED = "def untyped(x):\n    return x"


def test_a_type_checker_knows_the_callers_array_and_refuses_a_wrong_option(tmp_path):
    """One run of mypy over a small program and over a copy of the core in which one function has no types."""
    root = copy_of(tmp_path, "bayesgrad", "pyproject.toml")
    append(root / "bayesgrad" / "masks.py", UNTYPED)
    sample = root / "sample.py"
    sample.write_text(TYPED + "\n".join(WRONG) + "\n")
    config = ("--config-file", str(root / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache" / "guards"))
    said, errors, status = mypy.run([*config, str(sample), str(root / "bayesgrad" / "masks.py")])
    assert status == 1, said + errors
    revealed = re.findall(r'sample\.py:\d+: note: Revealed type is "(.*)"', said)
    assert len(revealed) == 4
    assert all("ndarray" in found for found in revealed), revealed
    first = TYPED.count("\n") + 1
    for line, word in enumerate(WRONG.values(), first):
        assert re.search(rf"sample\.py:{line}: error: .*{word}", said), f"line {line} passes:\n{said}"
    assert "masks.py" in said
    assert "Function is missing a type annotation  [no-untyped-def]" in said


def test_the_core_has_every_flag_of_strict():
    """The flags that `mypy --strict` stands for; a new mypy may know one more."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    core = next(o for o in options["overrides"] if "bayesgrad.*" in o["module"])
    here = {name: value for name, value in (options | core).items() if isinstance(value, bool)}
    flags = {name.removeprefix("--").replace("-", "_") for name in strict_flags()}
    about_comments = {"warn_unused_ignores"}  # one for a call that newer versions of PyTorch have typed
    for flag in flags - about_comments:
        assert here.get(flag) is True or here.get(flag.removeprefix("no_")) is False, flag


def strict_flags() -> set[str]:
    done = subprocess.run([sys.executable, "-m", "mypy", "--help"], capture_output=True, text=True, check=True)
    text = done.stdout.split("  --strict ")[1].split("enables the following flags:")[1].split("\n  --")[0]
    return set(re.findall(r"--[\w-]+", re.sub(r"-\n\s+", "-", text)))


# --- versions ---------------------------------------------------------------------------------------------------------


def versions(root: Path) -> dict[str, str]:
    """The version of the package, wherever it stands."""

    def first(file: str, pattern: str) -> str:
        found = re.search(pattern, (root / file).read_text(encoding="utf-8"), flags=re.M)
        return found[1] if found else "none"

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    where = project["tool"]["hatch"]["version"]["path"] if "version" in project["project"]["dynamic"] else "none"
    return {
        "pyproject.toml": first(where, r'^__version__ = "(.*)"$'),
        "bayesgrad/__init__.py": first("bayesgrad/__init__.py", r'^__version__ = "(.*)"$'),
        "CITATION.cff": first("CITATION.cff", r"^version: (.*)$"),
        "CHANGELOG.md": first("CHANGELOG.md", r"^## (\d\S*)"),
    }


def test_the_version_is_one_everywhere():
    assert set(versions(ROOT).values()) == {bayesgrad.__version__}


@pytest.mark.parametrize("file", ["CITATION.cff", "CHANGELOG.md", "bayesgrad/__init__.py"])
def test_another_version_anywhere_is_found(tmp_path, file):
    root = copy_of(tmp_path, "pyproject.toml", "CITATION.cff", "CHANGELOG.md", "bayesgrad/__init__.py")
    replaced(root / file, bayesgrad.__version__, "9.9.9")
    assert len(set(versions(root).values())) == 2


# --- pins -------------------------------------------------------------------------------------------------------------


def required(root: Path) -> set[str]:
    """Every distribution that pyproject.toml names, or that a pip of the Makefile or of .ci/run names itself."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    extras, groups = project["project"]["optional-dependencies"], project["dependency-groups"]
    lists = [
        project["build-system"]["requires"],
        project["project"]["dependencies"],
        *extras.values(),
        *groups.values(),
    ]
    named = {Requirement(text).name for texts in lists for text in texts if isinstance(text, str)}
    for file in ("Makefile", ".ci/run"):
        for line in re.findall(r"pip install (.*)", (root / file).read_text(encoding="utf-8")):
            words = re.sub(r"--(constraint|group|editable|requirement)[ =]\S+|(?<!\S)--?[\w-]+", "", line).split()
            named |= {word for word in words if re.fullmatch(r"[A-Za-z][\w.-]*", word)}
    return {canonicalize_name(name) for name in named} - {"bayesgrad"}


def closure(names: set[str]) -> set[str]:
    """The names with all that they need here, as far as they are installed."""
    found: set[str] = set()
    left = set(names)
    while left:
        name = left.pop()
        found.add(name)
        try:
            needs = [Requirement(text) for text in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:  # of a group that is not installed here
            continue
        here = (need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""}))
        left |= {canonicalize_name(need.name) for need in here} - found
    return found


def unpinned(root: Path) -> set[str]:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [re.fullmatch(r"([\w.-]+)==(\d[\w.+!]*)", line) for line in lines if line and not line.startswith("#")]
    assert all(pins), "constraints.txt: every line is NAME==VERSION"
    names = [canonicalize_name(pin[1]) for pin in pins]
    assert len(names) == len(set(names)), "constraints.txt: a name is pinned twice"
    return closure(required(root)) - set(names)


PINNING = ("pyproject.toml", "Makefile", ".ci/run", "constraints.txt")


def test_all_that_is_installed_is_pinned():
    assert unpinned(ROOT) == set()


@pytest.mark.parametrize(
    ("file", "old", "new", "name"),
    [
        ("constraints.txt", "pytest-xdist==", "# pytest-xdist==", "pytest-xdist"),
        ("constraints.txt", "MarkupSafe==", "# MarkupSafe==", "markupsafe"),
        ("pyproject.toml", 'report = ["jinja2>=3.1"', 'report = ["jinja2>=3.1", "unheard-of>=1"', "unheard-of"),
        ("Makefile", "constraints.txt pip", "constraints.txt pip wheel", "wheel"),
        (".ci/run", 'begin "lint"', 'pip install unheard-of\nbegin "lint"', "unheard-of"),
    ],
)
def test_what_is_not_pinned_is_found(tmp_path, file, old, new, name):
    root = copy_of(tmp_path, *PINNING)
    replaced(root / file, old, new)
    assert unpinned(root) == {name}


def test_pip_is_always_told_the_pins():
    for file in ("Makefile", ".ci/run"):
        for line in re.findall(r"pip install .*", (ROOT / file).read_text(encoding="utf-8")):
            assert "--constraint constraints.txt" in line, line


# --- generated files --------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """Without the statements, which need every proof; tests/test_statements.py compares them one by one."""
    some = {name: text for name, text in generated.GENERATED.items() if name.startswith("docs/")}
    monkeypatch.setattr(generated, "GENERATED", some)
    return some


def test_generated_files_are_current(quick, capsys):
    assert generated.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", ["docs/api.md", "docs/catalogue.md"])
def test_a_stale_file_is_found_and_written_anew(quick, tmp_path, name):
    root = copy_of(tmp_path, *quick)
    assert generated.stale(root) == []
    append(root / name, "one more line")
    assert generated.stale(root) == [name]
    (root / name).unlink()
    assert generated.stale(root) == [name]
    assert generated.write(root) == [name]
    assert generated.stale(root) == []


def measured_with(page: str) -> dict[str, str]:
    """The versions that the head of docs/benchmarks.md names."""
    return dict(re.findall(r"(NumPy|PyTorch) ([\d.]+)", page.split("\n\n")[1]))


def pinned(name: str) -> str:
    return re.search(rf"^{name}==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), flags=re.M)[1]


def test_the_benchmarks_were_measured_with_the_pinned_versions():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert measured_with(page) == {"NumPy": pinned("numpy"), "PyTorch": pinned("torch")}
    assert measured_with(page.replace("NumPy 2", "NumPy 1", 1)) != measured_with(page)


def test_lint_runs_every_guard():
    """What stands here as a test, `make lint` runs as commands, and continuous integration runs `make lint`."""
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").split("\nlint:")[1].split("\n\n")[0]
    for command in ("ruff check", "ruff format --check", "-m mypy", "lint-imports", "docs.generated --check"):
        assert command in lines
    assert re.search(r"^make lint$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), flags=re.M)
