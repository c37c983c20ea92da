"""Every public name has a docstring, and every example in one is true."""
import doctest
import importlib
import inspect
import pathlib

import pytest

import tessera as ts

ENERGIES = ["tessera._energy"] if hasattr(ts._core, "energy") else []
MODULES = ["tessera", "tessera._einsum", "tessera._tensor", "tessera._contract", "tessera._matrix", *ENERGIES]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0 and tried > 0


def test_every_public_name_has_a_docstring_with_an_example():
    for name in ts.__all__:
        if not name.startswith("__"):
            text = inspect.getdoc(getattr(ts, name))
            compiled = getattr(ts, name).__module__ == "tessera._core"  # made by others, whose examples show them
            assert text and (compiled or ">>>" in text), name


def test_quick_start():
    page = pathlib.Path(__file__).parents[2] / "docs" / "python" / "README.md"
    if not page.exists():
        pytest.skip("the package is away from its source")
    failed, tried = doctest.testfile(str(page), module_relative=False,
                                     optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0 and tried > 10
