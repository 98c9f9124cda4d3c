"""Python source through its syntax tree: which names it uses, under whatever aliases, and its comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from ...readers.nodes import Comment, ReadError

_SCRIPT_BLOCK = re.compile(r"^# /// script[ \t]*\n((?:#[^\n]*\n)+?)# ///[ \t]*$", re.MULTILINE)
_MISSING = ("ImportError", "ModuleNotFoundError", "AttributeError", "Exception")


@dataclass(frozen=True)
class Reference:
    """A use of a name by its full path: `torchvision.io.X` for `io.X` after `from torchvision import io`."""

    name: str
    line: int
    last_line: int


def parse(text: str) -> ast.Module:
    """Raises ReadError for source that this Python can't read: an error, or syntax newer than itself."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise ReadError(error.lineno or 1, f"not Python that this interpreter reads: {error.msg}") from error
    except (ValueError, MemoryError) as error:
        raise ReadError(1, f"not Python: {error}") from error


def references(tree: ast.Module) -> Iterator[Reference]:
    """Every use of an imported name, in source order, each once per line.

    An import whose failure is handled (`try: ... except ImportError`) is not one, nor is a use of its name:
    such code has another way already.
    """
    visitor = _References()
    visitor.visit(tree)
    seen = set()
    for found in sorted(visitor.found, key=lambda reference: (reference.line, reference.name)):
        if (found.name, found.line) not in seen:
            seen.add((found.name, found.line))
            yield found


class _References(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[Reference] = []
        self.names: dict[str, str] = {}  # local name -> full path
        self.guarded: set[ast.AST] = set()

    def visit_Module(self, node: ast.Module) -> None:
        self.guarded = {
            inner
            for block in ast.walk(node)
            if isinstance(block, ast.Try) and any(_catches_missing(handler) for handler in block.handlers)
            for statement in block.body
            for inner in ast.walk(statement)
        }
        for inner in ast.walk(node):  # a function may use what is imported further down
            if inner not in self.guarded:
                self._bind(inner)
        self.generic_visit(node)

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                self.names[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            self.names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})

    def visit_Import(self, node: ast.Import) -> None:
        if node not in self.guarded:
            for alias in node.names:
                self._note(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node not in self.guarded and node.module and not node.level:
            for alias in node.names:
                self._note(f"{node.module}.{alias.name}", alias if hasattr(alias, "lineno") else node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._path(node)
        if name:
            self._note(name, node)
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and node.id in self.names:
            self._note(self.names[node.id], node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) == 2:
            base, attribute = self._path(node.args[0]), node.args[1]
            if base and isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
                self._note(f"{base}.{attribute.value}", node)
        self.generic_visit(node)

    def _path(self, node: ast.AST) -> str:
        if isinstance(node, ast.Attribute):
            base = self._path(node.value)
            return f"{base}.{node.attr}" if base else ""
        return self.names.get(node.id, "") if isinstance(node, ast.Name) else ""

    def _note(self, name: str, node: ast.AST) -> None:
        line = getattr(node, "lineno", 1)
        self.found.append(Reference(name, line, getattr(node, "end_lineno", line) or line))


def _catches_missing(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id in _MISSING for kind in kinds)


def listed_strings(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Number of the list, line and text of every string that is an item of a list, a tuple or a set."""
    for number, node in enumerate(ast.walk(tree)):
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            for item in node.elts:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    yield number, item.lineno, item.value


def comments(text: str) -> list[Comment]:
    """The comments; of a source that can't be split into tokens, those before the error."""
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                found.append(Comment(line, token.string, not token.line[:column].strip()))
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def script_metadata(text: str) -> tuple[int, str] | None:
    """First line and TOML text of the `# /// script` block (PEP 723), or None."""
    match = _SCRIPT_BLOCK.search(text)
    if match is None:
        return None
    rows = match[1].split("\n")[:-1]
    return text.count("\n", 0, match.start(1)) + 1, "\n".join(
        row[2:] if row.startswith("# ") else row[1:] for row in rows
    )
