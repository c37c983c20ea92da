"""The notebooks of docs/python/notebooks run from top to bottom."""
import pathlib

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "python" / "notebooks"
NEEDS = {"pyscf_ccsd_t": ["pyscf"], "quimb_symmray": ["quimb", "symmray"]}


def test_there_are_three():
    assert len(list(FOLDER.glob("*.ipynb"))) == 3


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(path):
    for package in NEEDS.get(path.stem, []):
        pytest.importorskip(package)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
