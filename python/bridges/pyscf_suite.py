#!/usr/bin/env python3
"""PySCF's own closed-shell coupled-cluster tests with tessera.pyscf.CCSD in place of its classes.

usage: pyscf_suite.py FOLDER [pytest options]     (FOLDER: pyscf/cc/test of PySCF's repository; its wheel has no tests)

EXCLUDED has every case that is left out, and why; docs/python/PYSCF.md has the same list.
"""
import os
import pathlib
import sys

import pytest
from pyscf import cc, lib, scf
from pyscf.cc import ccsd, ccsd_t, dfccsd, rccsd

import tessera.pyscf

FILES = ["test_rccsd.py", "test_ccsd_t.py", "test_h2o.py", "test_dfccsd.py"]
EXCLUDED = {
    "test_ccsd_t.py::KnownValues::test_ccsd_t_complex": "complex orbitals",
    "test_h2o.py::KnownValues::test_init": "makes the class of complex orbitals among others",
    "test_rccsd.py::KnownValues::test_ao2mo": "asks for vvvv of a fitted mean field; what is made is vvL, as by pyscf.cc.CCSD",
    "test_dfccsd.py::KnownValues::test_with_df": "the same",
}


class Rccsd(tessera.pyscf.CCSD, rccsd.RCCSD):
    """With the integrals of rccsd, which are not packed."""


class Dfccsd(tessera.pyscf.CCSD):
    """Fitted also where the mean field is not."""

    def __init__(self, mf, *more, **named):
        super().__init__(mf, *more, **named)
        self.with_df = self.with_df or tessera.pyscf._fitting(mf.mol)


def update_amps(mycc, t1, t2, eris):
    return tessera.pyscf.CCSD.update_amps(mycc, t1, t2, eris)


def triples(mycc, eris, t1=None, t2=None, verbose=None):
    return tessera.pyscf.CCSD.ccsd_t(mycc, t1, t2, eris)


def main(folder, *options):
    ccsd.CCSD = ccsd.RCCSD = ccsd.CC = tessera.pyscf.CCSD
    rccsd.RCCSD = Rccsd
    dfccsd.RCCSD = dfccsd.DFCCSD = dfccsd.DFRCCSD = Dfccsd
    scf.hf.RHF.CCSD = lib.class_as_method(tessera.pyscf.CCSD)
    scf.hf.RHF.DFCCSD = lib.class_as_method(Dfccsd)
    ccsd.update_amps, ccsd_t.kernel = update_amps, triples
    assert isinstance(cc.ccsd.CCSD, type) and cc.ccsd.CCSD is tessera.pyscf.CCSD
    os.chdir(folder)
    left_out = [f"--deselect={case}" for case in EXCLUDED]
    return pytest.main(["-q", "-p", "no:cacheprovider", *FILES, *left_out, *options])


if __name__ == "__main__":
    if len(sys.argv) < 2 or not all((pathlib.Path(sys.argv[1]) / f).exists() for f in FILES):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
