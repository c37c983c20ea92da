#!/usr/bin/env python3
"""Writes basis sets from the Basis Set Exchange into share/basis, H to Ar, in Gaussian-94 format.

usage: basis_sets.py [NAME ...]     (needs PyPI's basis_set_exchange; without names all sets that came from it)
"""
import pathlib
import sys

import basis_set_exchange as bse

SETS = ["def2-universal-jkfit", "def2-svp-rifit", "def2-tzvp-rifit", "cc-pvdz-rifit", "cc-pvtz-rifit", "aug-cc-pvdz-rifit",
        "cc-pvtz-jkfit", "cc-pvtz", "aug-cc-pvdz", "def2-tzvp"]
FOLDER = pathlib.Path(__file__).resolve().parents[1] / "share/basis"


def number(text):
    """The shortest way to write the same number."""
    return repr(float(text))


def citation(entry):
    authors = []
    for a in entry["authors"]:
        last, _, first = a.partition(", ")
        authors.append(" ".join([f"{w[0]}." for w in first.split()] + [last]))
    text = f"{', '.join(authors)}, {entry.get('journal', entry.get('booktitle', entry.get('school', 'unpublished')))}"
    text += f" {entry['volume']}" if "volume" in entry else ""
    text += f", {entry['pages']}" if "pages" in entry else ""
    return f"{text} ({entry['year']})"


def symbols(numbers):
    return " ".join(bse.lut.element_sym_from_Z(int(z), True) for z in sorted(int(z) for z in numbers))


def write(name):
    found = next(x for x in bse.get_all_basis_names() if x.lower() == name)
    data = bse.get_basis(found)
    elements = sorted((z for z in data["elements"] if int(z) <= 18), key=int)
    by_reference = {}
    for group in bse.get_references(found, elements=elements):
        for info in group["reference_info"]:
            for _, entry in info["reference_data"]:
                by_reference.setdefault(citation(entry), set()).update(group["elements"])
    lines = [f"! {found}, {symbols(elements)}", f"! {data['description']}"]
    lines += [f"! Reference [{symbols(z)}]: {text}" for text, z in by_reference.items()]
    lines += [f"! From the Basis Set Exchange (basis_set_exchange {bse.__version__}, version {data['version']} of the set), BSD-3-Clause,",
              "! Copyright (c) 2020 The Molecular Sciences Software Institute, Virginia Tech;",
              "! B. P. Pritchard, D. Altarawy, B. Didier, T. D. Gibson, T. L. Windus, J. Chem. Inf. Model. 59, 4814 (2019).", "****"]
    for z in elements:
        lines.append(f"{symbols([z])} 0")
        for shell in data["elements"][z]["electron_shells"]:
            momenta = shell["angular_momentum"]
            for n, coefficients in enumerate(shell["coefficients"]):
                letter = "SPDFGHI"[momenta[n if len(momenta) > 1 else 0]]
                kept = [(e, c) for e, c in zip(shell["exponents"], coefficients) if float(c) != 0]
                lines.append(f"{letter} {len(kept)} 1.0")
                lines += [f"{number(e)} {number(c)}" for e, c in kept]
        lines.append("****")
    (FOLDER / f"{name}.g94").write_text("\n".join(lines) + "\n")


for name in sys.argv[1:] or SETS:
    write(name.lower())
