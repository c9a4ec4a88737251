"""Families of operations by name."""

import pytest

from stepwhy.diagnose.compute.dominant_op import family_of


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("FusedBatchNormV3", "normalisation"),
        ("aten::native_layer_norm", "normalisation"),
        ("triton_poi_fused_normalize_0", "normalisation"),
        ("RandomStandardNormal", "RandomStandardNormal"),
        ("aten::normal_", "aten::normal_"),
        ("_MklMatMul", "matrix product"),
    ],
)
def test_families(name, family):
    assert family_of(name) == family
