"""Evidence goes stale with everything that made it: what a route imports, now or later, is among its sources.

The imports are read from the code (those inside functions too); result modules are found by discovery, so whoever
imports `derivations.result` imports all of them. Left out is what every process of the package loads
(`import bayesgrad`), unless the route says that it judges it, and the modules that write evidence.
"""

from __future__ import annotations

import copy
from functools import cache

import grimp
import pytest

from bayesgrad import evidence
from checks import evidence as checks_evidence
from checks.mutation import mutants
from derivations import __main__ as proofs
from derivations.formal import build
from derivations.result import module_of, results
from derivations.routes import code_route, exact_instances, sympy_sizes

ROUTES = {
    "proof": ("derivations.__main__", proofs.SOURCES),
    "exact": ("derivations.routes.exact_instances", exact_instances.SOURCES),
    "code": ("derivations.routes.code_route", code_route.SOURCES),
    "sympy": ("derivations.routes.sympy_sizes", sympy_sizes.SOURCES),
    "formal": ("derivations.formal.build", build.SOURCES),
    "check": ("checks.conftest", checks_evidence.SOURCES),
    "code_mutants": ("checks.mutation.mutants", mutants.SOURCES),
}
# Imports that no verdict of the route goes through, and why.
ASIDE = {
    ("checks.registry", "bayesgrad.symbolic"): ("code_mutants",),  # a mutant is killed by oracles, not by statements
    ("checks.registry", "derivations"): ("code_mutants",),
    ("checks.evidence", "derivations"): ("code_mutants",),
    ("derivations.formal.rational_instances", "bayesgrad"): ("formal",),  # looked at in every build and in the tests
}
WRITERS = (
    "bayesgrad.command",
    "bayesgrad.evidence",
    "bayesgrad.command",
    "derivations.present",
    "derivations.skeleton",
    "derivations.trust",
    "checks.kept",
)


@cache
def imports() -> grimp.ImportGraph:
    graph = grimp.build_graph("bayesgrad", "derivations", "checks", cache_dir=None, exclude_type_checking_imports=True)
    for label in results():
        graph.add_import(importer="derivations.result", imported=module_of(label))
    for module in graph.find_descendants("checks"):
        if module.rpartition(".")[2].startswith("check_"):  # pytest loads them
            graph.add_import(importer="checks.conftest", imported=module)
    return graph


def file_of(module: str) -> str:
    path = module.replace(".", "/")
    package = f"{path}/__init__.py"
    return package if (evidence.ROOT / package).is_file() else f"{path}.py"


def reached(route: str, module: str) -> set[str]:
    graph = copy.deepcopy(imports())
    for (importer, imported), routes in ASIDE.items():
        if route in routes:
            for name in graph.find_modules_directly_imported_by(importer):
                if name == imported or name.startswith(f"{imported}."):
                    graph.remove_import(importer=importer, imported=name)
    always = {"bayesgrad", *graph.find_upstream_modules("bayesgrad")}
    found = {module, *graph.find_upstream_modules(module)} - always
    return {file_of(name) for name in found if not name.startswith(WRITERS)}


@pytest.mark.parametrize("route", ROUTES)
def test_whatever_a_route_imports_makes_its_evidence_stale(route):
    module, patterns = ROUTES[route]
    covered = evidence.sources(patterns)
    assert sorted(name for name in reached(route, module) if name not in covered) == []
