#!/usr/bin/env python3
"""Tessera as a program of QCEngine. `tessera` must be on the PATH.

    import qcengine, qcengine_tessera
    qcengine_tessera.register()
    result = qcengine.compute({"molecule": ..., "driver": "energy", "model": {"method": "ccsd(t)", "basis": "cc-pvdz"},
                               "keywords": {"frozen_core": True}}, "tessera")

usage: qcengine_tessera.py QUESTION.json     (QCSchema; the answer is printed)
"""
import json
import shutil
import subprocess
import sys

import qcengine
from qcelemental.models import v1, v2
from qcengine.exceptions import ConvergenceError, InputError, ResourceError, UnknownError
from qcengine.programs import ProgramHarness

ERRORS = {"input_error": InputError, "resource_error": ResourceError, "convergence_error": ConvergenceError}


class TesseraHarness(ProgramHarness):
    _defaults = {"name": "Tessera", "scratch": False, "thread_safe": True, "thread_parallel": True, "node_parallel": False,
                 "managed_memory": True}

    @staticmethod
    def found(raise_error=False):
        there = shutil.which("tessera") is not None
        if raise_error and not there:
            raise ModuleNotFoundError("tessera is not on the PATH")
        return there

    def get_version(self):
        self.found(raise_error=True)
        return subprocess.run(["tessera", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]

    def compute(self, input_data, config):
        self.found(raise_error=True)
        words = ["tessera", "energy", "--qcschema", "-", "--quiet", "--threads", str(config.ncores),
                 "--memory", f"{int(config.memory * 2**30)}"]
        done = subprocess.run(words, input=input_data.serialize("json"), capture_output=True, text=True, check=False)
        if not done.stdout:
            raise UnknownError(done.stderr)
        answer = json.loads(done.stdout)
        if not answer["success"]:
            raise ERRORS.get(answer["error"]["error_type"], UnknownError)(answer["error"]["error_message"])
        return (v1 if answer["schema_version"] == 1 else v2).AtomicResult(**answer)


def register():
    if "tessera" not in qcengine.list_all_programs():
        qcengine.register_program(TesseraHarness())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    register()
    with open(sys.argv[1]) as file:
        result = qcengine.compute(json.load(file), "tessera")
    print(result.serialize("json"))
    sys.exit(0 if result.success else 1)
