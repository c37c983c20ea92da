"""Time lines by matplotlib."""
import pytest

pytest.importorskip("matplotlib").use("Agg")

import tessera as ts  # noqa: E402


def test_time_lines():
    t = ts.Tensor.random([[8] * 4] * 2, seed=1)
    p = ts.plan("ij,jk->ik", t, t)
    s = p.simulate("summit", ranks=2, trace=True)
    for axes in (s.plot(), s.trace.plot()):
        names = [label.get_text() for label in axes.get_yticklabels()]
        assert any(name.startswith("rank 1") for name in names) and axes.get_xlim()[1] >= s.seconds
    assert len(p.simulate("summit", ranks=2).plot().get_yticks()) == 2
    _, report = ts.contract("ij,jk,kl->il", t, t, t)
    axes = report.plot()
    assert len(axes.get_yticks()) == 2
    assert report.plot(axes) is axes
    with pytest.raises(ts.UserError, match="trace is empty"):
        report.trace.plot()
