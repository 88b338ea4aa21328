"""Mutants of source code: one small change each, made on the syntax tree and put into the running process.

A :class:`Mutant` replaces the code object of one function (``function.__code__``), so everybody who holds the
function sees the change, no file is written, and undoing it is one assignment. The operators are named in
:data:`OPERATORS`; each lists all the places of a function where it applies. Argument checks (calls into ``_validate``),
default values, raised errors, annotations and strings are left alone: these are tested by tests of arguments, not by
checks of laws.
"""

from __future__ import annotations

import ast
import collections
import copy
import inspect
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

Place = tuple[ast.AST, str]
Change = Callable[[ast.AST], Iterator[tuple[str, ast.AST]]]
Key = tuple[str, str, int]


def _sign(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """x + y to x - y and back; -x to x."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        other: ast.operator = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "sign", ast.BinOp(node.left, other, node.right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "minus", node.operand


def _dropped(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """One side of a sum or of a product left out."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        yield "second", node.left
        if isinstance(node.op, ast.Sub):
            yield "first", ast.UnaryOp(ast.USub(), node.right)
        elif not isinstance(node.op, ast.Div):
            yield "first", node.right


def _inverted(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """x * y to x / y and back."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        other: ast.operator = ast.Div() if isinstance(node.op, ast.Mult) else ast.Mult()
        yield "product", ast.BinOp(node.left, other, node.right)


def _swapped(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Two neighbouring positional arguments of a call, or the sides of - and /, swapped (not where order is free)."""
    symmetric = isinstance(node, ast.Call) and _called(node) in ("max", "min", "logical_and", "logical_or")
    if isinstance(node, ast.Call) and not symmetric and not any(isinstance(x, ast.Starred) for x in node.args):
        for at in range(len(node.args) - 1):
            if ast.dump(node.args[at]) == ast.dump(node.args[at + 1]):
                continue
            call = copy.deepcopy(node)
            call.args[at], call.args[at + 1] = call.args[at + 1], call.args[at]
            yield f"arguments {at} and {at + 1}", call
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div):
        yield "sides", ast.BinOp(node.right, node.op, node.left)


def _axes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """axis=-1 to axis=-2 and back, axis=-3 to axis=-2."""
    if isinstance(node, ast.Call):
        for at, keyword in enumerate(node.keywords):
            if keyword.arg == "axis" and isinstance(keyword.value, ast.UnaryOp):
                axis = ast.literal_eval(keyword.value)
                call = copy.deepcopy(node)
                call.keywords[at].value = ast.parse(str(-1 if axis == -2 else -2), mode="eval").body
                yield f"axis {axis}", call


def _transposed(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """A transposition left out."""
    if isinstance(node, ast.Call) and _called(node) in ("matrix_transpose", "transpose") and node.args:
        yield "left out", node.args[-1]


def _boundary(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """< to <=, > to >=, == to !=, and back."""
    pairs = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in pairs:
        yield "comparison", ast.Compare(node.left, [pairs[type(node.ops[0])]()], node.comparators)  # type: ignore


def _constant(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """A number c to c + 1, and 1 to 0; True to False and back."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "truth", ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield "plus one", ast.Constant(node.value + 1)
        if node.value == 1:
            yield "zero", ast.Constant(type(node.value)(0))


def _exchanged(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """max for min, any for all, logical_and for logical_or, zeros_like for ones_like, and back; and/or; if/else."""
    pairs = {"max": "min", "any": "all", "logical_and": "logical_or", "zeros_like": "ones_like", "zeros": "ones"}
    pairs |= {new: old for old, new in pairs.items()}
    if isinstance(node, ast.Attribute) and node.attr in pairs and isinstance(node.value, ast.Name):
        yield node.attr, ast.Attribute(node.value, pairs[node.attr], node.ctx)
    if isinstance(node, ast.BoolOp):
        yield "connective", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.IfExp):
        yield "branches", ast.IfExp(node.test, node.orelse, node.body)


def _unwrapped(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """exp(x), log(x), logical_not(x) to x."""
    if isinstance(node, ast.Call) and _called(node) in ("exp", "log", "logical_not") and len(node.args) == 1:
        yield _called(node), node.args[0]


OPERATORS: dict[str, Change] = {
    "sign flipped": _sign,
    "term dropped": _dropped,
    "product inverted": _inverted,
    "arguments swapped": _swapped,
    "axis changed": _axes,
    "transposition dropped": _transposed,
    "boundary moved": _boundary,
    "constant changed": _constant,
    "operation exchanged": _exchanged,
    "function dropped": _unwrapped,
}
"""The named operators; their docstrings say what each does."""


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@dataclass(frozen=True)
class Mutant:
    """One change: where it stands, what it was, what it is, and the code that does it."""

    module: str
    function: str
    line: int
    operator: str
    nth: int
    detail: str
    before: str
    after: str
    code: CodeType

    @property
    def key(self) -> Key:
        """What identifies it: the function, the operator, and which of its mutants by that operator (from 1).

        The text of the source is no part of it: a new layout or a renamed variable leaves every key as it was.
        """
        return f"{self.module}.{self.function}", self.operator, self.nth

    @property
    def name(self) -> str:
        """What it does, to be read: module.function: before -> after."""
        return f"{self.module}.{self.function}: {self.before} -> {self.after}"


def _skipped(node: ast.AST) -> bool:
    """Raised errors, argument checks, annotations, docstrings, blocks that only look at values."""
    if isinstance(node, ast.Raise | ast.arguments | ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return isinstance(node.func.value, ast.Name) and node.func.value.id == "_validate"
    if isinstance(node, ast.If):
        return any(isinstance(x, ast.Raise) for x in node.body) or "validate" in ast.unparse(node.test)
    return False


def _places(node: ast.AST, path: tuple[tuple[str, int | None], ...] = ()) -> Iterator[tuple[ast.AST, tuple]]:
    if _skipped(node):
        return
    yield node, path
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        if isinstance(value, ast.AST):
            yield from _places(value, (*path, (name, None)))
        elif isinstance(value, list):
            for at, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _places(item, (*path, (name, at)))


def _put(root: ast.AST, path: tuple[tuple[str, int | None], ...], new: ast.AST) -> None:
    node = root
    for name, at in path[:-1]:
        value = getattr(node, name)
        node = value if at is None else value[at]
    name, at = path[-1]
    if at is None:
        setattr(node, name, new)
    else:
        getattr(node, name)[at] = new


def functions_of(module: ModuleType) -> dict[str, FunctionType]:
    """The functions that a module defines, and the methods of its classes, by name: f, Class.f."""
    own = {name: x for name, x in vars(module).items() if getattr(x, "__module__", None) == module.__name__}
    methods = {
        f"{name}.{inner}": getattr(x, "__func__", x)  # the function of a static method
        for name, cls in own.items()
        if isinstance(cls, type)
        for inner, x in vars(cls).items()
    }
    return {name: x for name, x in {**own, **methods}.items() if isinstance(x, types.FunctionType)}


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            inside = (inner for inner in node.body if isinstance(inner, ast.FunctionDef))
            yield from ((f"{node.name}.{inner.name}", inner) for inner in inside)


def mutants_of(module: ModuleType) -> Iterator[Mutant]:
    """All mutants of a module's functions: every operator at every place; those that change nothing are left out."""
    source = inspect.getsource(module)
    tree = ast.parse(source)
    functions = functions_of(module)
    for name, definition in _definitions(tree):
        if name not in functions:
            continue
        original, seen = functions[name].__code__, {ast.unparse(definition)}
        count: collections.Counter[str] = collections.Counter()
        for node, path in _places(definition):
            for operator, change in OPERATORS.items():
                for detail, new in change(node):
                    changed = copy.deepcopy(definition)
                    _put(changed, path, copy.deepcopy(new))
                    text = ast.unparse(changed)
                    if text in seen:
                        continue
                    seen.add(text)
                    code = _compiled(changed, module, source)
                    if code is None or code.co_freevars != original.co_freevars:
                        continue
                    count[operator] += 1
                    yield Mutant(
                        module.__name__.rpartition(".")[2],
                        name,
                        getattr(node, "lineno", definition.lineno),
                        operator,
                        count[operator],
                        detail,
                        ast.unparse(node),
                        ast.unparse(new),
                        code,
                    )


def _compiled(definition: ast.FunctionDef, module: ModuleType, source: str) -> CodeType | None:
    bare = copy.copy(definition)
    bare.decorator_list = []
    future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
    tree = ast.fix_missing_locations(ast.Module([future, bare], []))
    for constant in compile(tree, str(module.__file__), "exec").co_consts:
        if isinstance(constant, CodeType) and constant.co_name == definition.name:
            return constant
    return None


@contextmanager
def living(module: ModuleType, mutant: Mutant) -> Iterator[None]:
    """Within the block the function has the mutant's code."""
    function = functions_of(module)[mutant.function]
    original = function.__code__
    function.__code__ = mutant.code
    try:
        yield
    finally:
        function.__code__ = original
