"""einsum, tensordot and transpose: NumPy's signatures over contractions of two operands."""

from __future__ import annotations

import functools
import string
from typing import Any, Sequence

import numpy as np

from . import _core
from ._contract import contract
from ._devices import einsum_there, is_there, tensors_there
from ._errors import UserError
from ._tensor import Tensor

# Specs of two operands that need nothing but the contraction itself, as the compiled part takes them.
_two_operands: dict[str, str] = {}


def einsum(subscripts: Any, *operands: Any, out: Any = None, optimize: Any = True, threads: int = 0) -> Any:
    """NumPy's einsum: of arrays where they lie, or of block-sparse tensors.

    Arrays are float32, float64, complex64 or complex128, of any strides; operands of different types are first copied
    to the common one. The result is a new row-major array, or ``out``, which must not share memory with an operand.
    NaN or infinity in a result is a UserError. More than two operands are contracted two at a time, in the order that
    has the least work; ``optimize`` is there for NumPy's sake. Tensors in, tensor out. Arrays of CuPy or PyTorch on a GPU
    are contracted there, and the result is one of theirs.

    >>> import numpy as np, tessera as ts
    >>> a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 4))
    >>> ts.einsum("ij,jk->ik", a, b)
    array([[ 3.,  3.,  3.,  3.],
           [12., 12., 12., 12.]])
    >>> ts.einsum("ij,jk,ik->", a, b, np.ones((2, 4)))
    np.float64(60.0)
    """
    if type(subscripts) is str and len(operands) == 2:
        spec = _two_operands.get(subscripts)
        a, b = operands
        if spec is not None and type(a) is np.ndarray and type(b) is np.ndarray:
            try:
                return _core.contract_two(spec, a, b, out, threads=threads)
            except UserError as error:
                raise _named(error, operands) from None
    if not isinstance(subscripts, str):
        subscripts, operands = _from_lists(subscripts, operands)
    if not operands:
        raise UserError(f"einsum {subscripts!r}: there are no operands")
    if any(isinstance(x, Tensor) for x in operands):
        return _einsum_tensors(subscripts, operands, out, threads)
    if any(map(is_there, operands)):
        tensors = tensors_there(operands, out)
        return einsum_there(*normal_form(subscripts, tuple(x.ndim for x in tensors)), tensors, operands[0])
    arrays = [as_array(x, f"operand {i}") for i, x in enumerate(operands)]
    inputs, output = normal_form(subscripts, tuple(x.ndim for x in arrays))
    try:
        result = _einsum_arrays(inputs, output, arrays, out, threads)
    except UserError as error:
        raise _named(error, arrays) from None
    if len(inputs) == 2 and "..." not in subscripts and not any(_alone(n, inputs, output) for n in (0, 1)):
        if len(_two_operands) > 10000:
            _two_operands.clear()
        _two_operands[subscripts] = f"{inputs[0]},{inputs[1]}->{output}"
    return result


def tensordot(a: Any, b: Any, axes: Any = 2, *, threads: int = 0) -> Any:
    """NumPy's tensordot: of arrays where they lie, or of block-sparse tensors.

    >>> import numpy as np, tessera as ts
    >>> ts.tensordot(np.ones((2, 3, 4)), np.ones((4, 3)), axes=([1, 2], [1, 0]))
    array([12., 12.])
    """
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        spec = _tensordot_spec(_rank(a), _rank(b), _as_pairs(axes))
        return einsum(spec, a, b, threads=threads)
    if is_there(a) or is_there(b):
        tensors = tensors_there((a, b), None)
        inputs, _, output = _tensordot_spec(*(x.ndim for x in tensors), _as_pairs(axes)).partition("->")
        return einsum_there(inputs.split(","), output, tensors, a)
    a, b = as_array(a, "a"), as_array(b, "b")
    spec = _tensordot_spec(a.ndim, b.ndim, _as_pairs(axes))
    one, other, kept = *spec.split("->")[0].split(","), spec.split("->")[1]
    for i, label in enumerate(one):
        if label not in kept and a.shape[i] != b.shape[other.index(label)]:
            raise UserError(f"tensordot: axis {i} of a has {a.shape[i]} elements, axis {other.index(label)} of b has "
                            f"{b.shape[other.index(label)]}")
    try:
        return _core.contract_two(spec, a, b, None, threads=threads)
    except UserError as error:
        raise _named(error, (a, b)) from None


def transpose(a: Any, axes: Sequence[int] | None = None, *, out: Any = None, threads: int = 0) -> Any:
    """A new row-major array (or ``out``) whose index d is index ``axes[d]`` of ``a``; all reversed without ``axes``.

    NumPy's own gives a view; this one moves the elements, near the speed of a copy.

    >>> import numpy as np, tessera as ts
    >>> ts.transpose(np.arange(6.0).reshape(2, 3))
    array([[0., 3.],
           [1., 4.],
           [2., 5.]])
    """
    there = tensors_there((a,), out) if is_there(a) else None
    rank = there[0].ndim if there else _rank(a) if isinstance(a, Tensor) else (a := as_array(a, "a")).ndim
    order = list(range(rank))[::-1] if axes is None else [_axis(i, rank, "a") for i in axes]
    if isinstance(a, Tensor):
        return Tensor(a._core.permute(order, threads))
    if there:
        labels = string.ascii_letters[:rank]
        return einsum_there((labels,), "".join(labels[i] for i in order), there, a)
    return _core.transpose(a, order, out, threads=threads)


def as_array(x: Any, name: str) -> np.ndarray:
    """The NumPy array over the same memory, where there is one."""
    if isinstance(x, np.ndarray):
        array = x
    elif isinstance(x, Tensor):
        raise UserError(f"{name} is a block-sparse tensor; to_numpy() makes an array of it")
    elif hasattr(x, "__dlpack_device__"):
        if is_there(x):
            raise UserError(f"{name} is a {type(x).__module__}.{type(x).__name__} on a device; einsum, tensordot, transpose "
                            "and Tensor.from_dense take such arrays, here one of the host is needed")
        array = np.from_dlpack(x)
    else:
        try:
            array = np.asarray(x)
        except ValueError as error:
            raise UserError(f"{name} is no array: {error}") from None
    if array.dtype.char not in "fdFD":
        raise UserError(f"{name} is a {array.dtype} array of shape {array.shape}; an array of float32, float64, "
                        "complex64 or complex128 is needed")
    return array


@functools.lru_cache(maxsize=4096)
def normal_form(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Labels of the operands and of the result, with the ellipsis and an implicit result written out."""

    def bad(why: str) -> UserError:
        return UserError(f"einsum {subscripts!r}: {why}")

    text = subscripts.replace(" ", "").replace("\t", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ranks):
        raise bad(f"{len(inputs)} operands in the spec, {len(ranks)} given")
    for part in (*inputs, right):
        letters = part.replace("...", "", 1)
        for letter in letters:
            if letter not in string.ascii_letters:
                raise bad(f"'{letter}' is no letter" if letter != "." else "'.' is no part of one ellipsis '...'")
    free = [letter for letter in reversed(string.ascii_letters) if letter not in text]
    longest = 0
    for i, (labels, rank) in enumerate(zip(inputs, ranks)):
        named = len(labels.replace("...", ""))
        if rank < named or ("..." not in labels and rank != named):
            raise bad(f"operand {i} has {rank} indices, its labels '{labels}' are {named}")
        if "..." in labels:
            longest = max(longest, rank - named)
    if longest > len(free):
        raise bad("there are not enough letters")
    hidden = "".join(free[:longest])
    written = []
    for labels, rank in zip(inputs, ranks):
        missing = rank - len(labels.replace("...", ""))
        written.append(labels.replace("...", hidden[longest - missing :] if missing else ""))
    if not arrow:
        every = "".join(inputs).replace("...", "")
        right = "..." + "".join(sorted(letter for letter in set(every) if every.count(letter) == 1))
    elif longest and "..." not in right:
        raise bad("the result has no '...', the operands have indices for it")
    right = right.replace("...", hidden)
    for letter in right:
        if right.count(letter) > 1:
            raise bad(f"label '{letter}' stands twice in the result")
        if not any(letter in labels for labels in written):
            raise bad(f"label '{letter}' of the result stands in no operand")
    return tuple(written), right


def _alone(n: int, inputs: Sequence[str], output: str) -> str:
    """Labels that operand n is summed over by itself."""
    others = output + "".join(labels for i, labels in enumerate(inputs) if i != n)
    return "".join(dict.fromkeys(label for label in inputs[n] if label not in others))


def _einsum_arrays(inputs: Sequence[str], output: str, arrays: list[Any], out: Any, threads: int) -> Any:
    if len(inputs) == 1:
        return _core.contract_one(f"{inputs[0]}->{output}", arrays[0], out, threads=threads)
    _check_extents(tuple(inputs), tuple(np.shape(x) for x in arrays))
    if len(inputs) == 2 and not any(_alone(n, inputs, output) for n in (0, 1)):
        return _core.contract_two(f"{inputs[0]},{inputs[1]}->{output}", arrays[0], arrays[1], out, threads=threads)
    return _core.contract_many(f"{','.join(inputs)}->{output}", arrays, out, threads=threads)


@functools.lru_cache(maxsize=4096)
def _check_extents(inputs: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> None:
    extents: dict[str, int] = {}
    first: dict[str, int] = {}
    for i, (labels, shape) in enumerate(zip(inputs, shapes)):
        for label, n in zip(labels, shape):
            known = extents.get(label, 1)
            if n != known and n != 1 and known != 1:
                a, b = (("A", "B") if len(inputs) == 2 else (f"operand {first[label]}", f"operand {i}"))
                raise UserError(f"contraction '{','.join(inputs)}': label '{label}' has {known} elements in {a} and {n} "
                                f"in {b}")
            if label not in extents or known == 1:
                extents[label], first[label] = n, i


def _einsum_tensors(subscripts: str, operands: Sequence[Any], out: Any, threads: int) -> Tensor:
    for i, x in enumerate(operands):
        if not isinstance(x, Tensor):
            raise UserError(f"operand {i} is a {type(x).__name__}, others are block-sparse tensors: "
                            "Tensor.from_dense makes one of an array")
    if out is not None:
        raise UserError("einsum: out is for arrays; contract() adds to a tensor")
    inputs, output = normal_form(subscripts, tuple(x.ndim for x in operands))
    return contract(f"{','.join(inputs)}->{output}", *operands, threads=threads)[0]


def _from_lists(first: Any, others: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """NumPy's other way: einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    given = [first, *others]
    output = given.pop() if len(given) % 2 else None

    def text(labels: Any) -> str:
        try:
            return "".join("..." if n is Ellipsis else string.ascii_letters[_label(n)] for n in labels)
        except (TypeError, IndexError):
            raise UserError(f"einsum: the labels {labels!r} are no list of numbers 0..51") from None

    spec = ",".join(text(labels) for labels in given[1::2])
    if output is not None:
        spec += "->" + text(output)
    return spec, tuple(given[0::2])


def _label(n: Any) -> int:
    if n < 0:
        raise IndexError
    return int(n)


def _rank(x: Any) -> int:
    return x.ndim if isinstance(x, (Tensor, np.ndarray)) else np.ndim(x)


def _axis(i: Any, rank: int, name: str) -> int:
    n = int(i)
    if not -rank <= n < rank:
        raise UserError(f"axis {n} of {name}, which has {rank} indices")
    return n % rank if rank else 0


def _as_pairs(axes: Any) -> int | tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, (int, np.integer)):
        return int(axes)
    try:
        one, other = axes
        return tuple(np.atleast_1d(one).tolist()), tuple(np.atleast_1d(other).tolist())
    except (TypeError, ValueError):
        raise UserError(f"tensordot: axes {axes!r} are neither a number nor two lists") from None


@functools.lru_cache(maxsize=4096)
def _tensordot_spec(rank_a: int, rank_b: int, axes: Any) -> str:
    if isinstance(axes, int):
        if not 0 <= axes <= min(rank_a, rank_b):
            raise UserError(f"tensordot: axes {axes}, of arrays with {rank_a} and {rank_b} indices")
        axes = tuple(range(rank_a - axes, rank_a)), tuple(range(axes))
    one = [_axis(i, rank_a, "a") for i in axes[0]]
    other = [_axis(i, rank_b, "b") for i in axes[1]]
    if len(one) != len(other):
        raise UserError(f"tensordot: {len(one)} axes of a, {len(other)} of b")
    if len(set(one)) != len(one) or len(set(other)) != len(other):
        raise UserError(f"tensordot: an axis stands twice in {axes!r}")
    if rank_a + rank_b > 52:
        raise UserError(f"tensordot: arrays of {rank_a} and {rank_b} indices")
    a = string.ascii_letters[:rank_a]
    b = list(string.ascii_letters[rank_a : rank_a + rank_b])
    for i, j in zip(one, other):
        b[j] = a[i]
    kept = [label for i, label in enumerate(a) if i not in one] + [label for j, label in enumerate(b) if j not in other]
    return f"{a},{''.join(b)}->{''.join(kept)}"


def _named(error: UserError, operands: Sequence[Any]) -> UserError:
    """Where the result is not finite: which operand it comes from."""
    if "holds NaN or infinity" in str(error):
        for i, x in enumerate(operands):
            finite = np.isfinite(x)
            if not finite.all():
                at = tuple(int(n) for n in np.argwhere(~finite)[0])
                return UserError(f"operand {i} holds {x[at]} at {at}; the result would hold it too")
    return error
