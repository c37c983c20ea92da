#!/usr/bin/env python3
"""Geometries made by rule, as xyz (Angstrom) on stdout.

usage: geometry.py alkane N | water N | graphene N
  alkane N    C(N)H(2N+2), all-trans: CC 1.54, CH 1.09, tetrahedral angles
  water N     N x N x N water molecules on a cubic lattice of 3.1 Angstrom, turned by turns
  graphene N  a hexagonal flake of N rings a side, CC 1.42, its edge closed by H at 1.09
"""
import itertools
import math
import sys


def alkane(n):
    """As alkane:n of `tessera run` (docs/ALKANE.md)."""
    half = math.acos(-1 / 3) / 2
    s, c = math.sin(half), math.cos(half)
    for g in range(n):
        side = -1 if g % 2 == 0 else 1
        x, y = (g - (n - 1) / 2) * 1.54 * s, side * 0.5 * 1.54 * c
        yield "C", x, y, 0.0
        for z in (s, -s):
            yield "H", x, y + side * 1.09 * c, 1.09 * z
        for end, sign in ((0, -1), (n - 1, 1)):
            if g == end:
                yield "H", x + sign * 1.09 * s, y - side * 1.09 * c, 0.0


def water(n):
    half = math.radians(104.5) / 2
    a, b = 0.958 * math.sin(half), 0.958 * math.cos(half)
    for i, j, k in itertools.product(range(n), repeat=3):
        at = [3.1 * i, 3.1 * j, 3.1 * k]
        turn = (i + 2 * j + 3 * k) % 3
        for symbol, u, v in (("O", 0, 0), ("H", a, b), ("H", -a, b)):
            move = [u, v, 0]
            move = move[turn:] + move[:turn]
            yield symbol, *(x + d for x, d in zip(at, move))


def graphene(n):
    bond, atoms = 1.42, []
    for p, q in itertools.product(range(-n + 1, n), repeat=2):
        if abs(p + q) >= n:
            continue
        x, y = math.sqrt(3) * bond * (p + q / 2), 1.5 * bond * q
        for corner in range(6):
            angle = math.pi / 6 + corner * math.pi / 3
            at = x + bond * math.cos(angle), y + bond * math.sin(angle)
            if all(math.dist(at, other) > 0.1 for other in atoms):
                atoms.append(at)
    for at in atoms:
        yield "C", *at, 0.0
    for x, y in atoms:
        near = [(u - x, v - y) for u, v in atoms if 0.1 < math.hypot(u - x, v - y) < 1.1 * bond]
        if len(near) == 2:
            away = [-near[0][d] - near[1][d] for d in (0, 1)]
            far = math.hypot(*away)
            yield "H", x + 1.09 * away[0] / far, y + 1.09 * away[1] / far, 0.0


rules = {"alkane": alkane, "water": water, "graphene": graphene}
if len(sys.argv) != 3 or sys.argv[1] not in rules or not sys.argv[2].isdecimal() or int(sys.argv[2]) < 1:
    sys.exit(__doc__ if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help")
             else f"geometry.py: {' '.join(sys.argv[1:])}: one of {', '.join(rules)}, and a number from 1 on")
atoms = list(rules[sys.argv[1]](int(sys.argv[2])))
print(len(atoms), f"{sys.argv[1]} {sys.argv[2]}", sep="\n")
for symbol, *at in atoms:
    print(symbol, *(f"{v:12.6f}" for v in at))
