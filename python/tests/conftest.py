import numpy as np
import pytest
from helpers import DTYPES, Random


@pytest.fixture(params=DTYPES)
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture
def random():
    return Random(20260101)
