#!/usr/bin/env python3
"""Writes docs/python/API.md from the docstrings of the package, which must be importable; with --check only looks whether it
is as they say.

usage: api_reference.py [--check]
"""
import ast
import importlib
import inspect
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "python" / "API.md"
GROUPS = {
    "Tensors": ["Tensor", "generated", "load", "norm", "dot", "trace", "TileInfo", "Generated"],
    "Contractions": ["einsum", "tensordot", "transpose", "contract", "plan", "Plan", "Report", "Simulation", "Trace"],
    "Functions of matrices": ["sign", "inverse", "sqrt_inverse", "exponential", "purify", "MatrixReport"],
    "Energies": ["energy"],
    "Errors": ["Error", "UserError", "MachineError", "BudgetError", "BackendUnavailable", "NotConverged", "InternalError"],
}
SKIPPED = re.compile(r" *# doctest: \+\w+")


def signature(thing, name):
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return name
    text = re.sub(r"\bself, |\(self\)", lambda m: "()" if m.group() == "(self)" else "", text)
    text = re.sub(r"((?:: |-> ))'([^']*)'", r"\1\2", text)  # annotations are kept as text
    return name + text.replace("tessera._core.", "").replace("_core.", "")


def text_of(thing):
    """Its docstring: examples as code."""
    lines, out, code = SKIPPED.sub("", inspect.getdoc(thing) or "").splitlines(), [], False
    for line in lines:
        if line.startswith(">>>") and not code:
            out.append("```python")
            code = True
        elif code and not line.strip():
            out.append("```")
            code = False
        out.append(line)
    if code:
        out.append("```")
    return fenced(out)


def fenced(lines):
    """In text, double backquotes as Markdown has them."""
    out, code = [], False
    for line in lines:
        if line.startswith("```"):
            code = not code
            out.append(line)
        else:
            out.append(line if code else line.replace("``", "`"))
    return "\n".join(out)


def heading(level, name, shown):
    """A long signature stands below the name, an argument a line."""
    if len(shown) <= 120:
        return [f"{level} `{shown}`", ""]
    parts, depth, last = [], 0, 0
    open_at = shown.index("(")
    for at in range(open_at + 1, len(shown)):
        c = shown[at]
        if c == ")" and depth == 0:
            parts.append(shown[last or open_at + 1:at].strip())
            return [f"{level} `{name}`", "", "```text", shown[:open_at + 1],
                    *(f"    {p}," for p in parts if p), shown[at:], "```", ""]
        depth += c in "([{"
        depth -= c in ")]}"
        if c == "," and depth == 0:
            parts.append(shown[last or open_at + 1:at].strip())
            last = at + 1
    raise ValueError(shown)


def members(kind):
    for name, thing in vars(kind).items():
        if name.startswith("_") and name != "__call__":
            continue
        if isinstance(thing, property) or type(thing).__name__ in ("nb_property", "getset_descriptor", "property"):
            doc = inspect.getdoc(thing)
            first = " ".join((doc or "").split("\n\n")[0].split())
            yield f"- `{name}`" + (f": {fenced([first])}" if first else "")
        elif isinstance(thing, (classmethod, staticmethod)) or callable(thing):
            inner = getattr(thing, "__func__", thing)
            shown = signature(inner, name).replace("(cls, ", "(").replace("(cls)", "()")
            yield "\n" + "\n".join([*heading("####", name, shown), text_of(inner)]) + "\n"


def page():
    ts = importlib.import_module("tessera")
    known = [name for names in GROUPS.values() for name in names]
    missing = set(ts.__all__) - set(known) - {"__version__"}
    if missing:
        sys.exit(f"api_reference: {', '.join(sorted(missing))} in no group of this script")
    out = ["# API reference", "", "Made from the docstrings by `scripts/api_reference.py`; their examples run in the tests.", ""]
    for title, names in GROUPS.items():
        out += [f"## {title}", ""]
        for name in names:
            thing = getattr(ts, name, None)
            if thing is None:
                continue
            shown = name if inspect.isclass(thing) else signature(thing, name)
            out += [*heading("###", name, shown), text_of(thing), ""]
            if inspect.isclass(thing) and title != "Errors":
                listed = list(members(thing))
                out += [x for x in listed if x.startswith("-")] + [""] + [x for x in listed if not x.startswith("-")]
    for module in ("tessera.symmray", "tessera.pyscf"):
        out += [f"## `{module}`", "", text_of_file(module), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


def text_of_file(module):
    """Without importing what it needs."""
    tree = ast.parse((pathlib.Path(__file__).resolve().parents[1] / "python" / f"{module.replace('.', '/')}.py").read_text())
    parts = [fenced(mark(ast.get_docstring(tree)))]
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            parts.append(f"### `{node.name}`\n\n{fenced(mark(ast.get_docstring(node) or ''))}")
    return "\n\n".join(parts)


def mark(text):
    class Holder:
        __doc__ = text

    return text_of(Holder).splitlines()


if __name__ == "__main__":
    made = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text() != made:
            sys.exit("docs/python/API.md is not what the docstrings say: scripts/api_reference.py writes it anew")
    elif len(sys.argv) > 1:
        sys.exit(__doc__)
    else:
        PAGE.write_text(made)
