"""Calls that hypothesis makes up, right and wrong ones: NumPy's result, or a UserError; never anything else."""
import numpy as np
import pytest

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

import tessera as ts  # noqa: E402

specs = st.text(alphabet="ijk,->. ", max_size=14)
shapes = st.lists(st.integers(0, 3), max_size=4).map(tuple)
dtypes = st.sampled_from(["f4", "f8", "c8", "c16", "i4", "O", "?", "f2"])


@hypothesis.settings(max_examples=10000, deadline=None)
@hypothesis.given(spec=specs, operands=st.lists(st.tuples(shapes, dtypes, st.booleans()), max_size=3))
def test_any_call(spec, operands):
    arrays = [np.ones(shape[::-1], dtype).T if turned else np.ones(shape, dtype) for shape, dtype, turned in operands]
    try:
        got = ts.einsum(spec, *arrays)
    except ts.UserError:
        got = None
    try:
        expected = np.einsum(spec, *arrays) if arrays else None
    except (ValueError, TypeError):
        expected = None
    if got is not None:
        assert expected is not None, spec
        np.testing.assert_allclose(got, expected)
    elif expected is not None:
        assert any(x.dtype.char not in "fdFD" for x in arrays), spec
