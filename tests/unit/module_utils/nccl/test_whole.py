"""Whether a table is all there: sweep, mean and ranks, each by itself."""

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
from __future__ import annotations

import pytest
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.collectives import Row
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.numbers import fixed, general
from ansible_collections.trainrig.gpu.plugins.module_utils.nccl.whole import averaged, ranked, sizes, swept


def rows(*counts, busbw="10.00", dtype="float"):
    figures = (fixed("100.00"), fixed("10.00"), fixed(busbw))
    return [
        Row(size, size // 4, dtype, "sum", -1, place, *figures, 0)
        for size in counts
        for place in ("out_of_place", "in_place")
    ]


@pytest.mark.parametrize(
    ("sweep", "wanted"),
    [
        ((8, 64, 2, True), [8, 16, 32, 64]),
        ((8, 63, 2, True), [8, 16, 32]),
        ((8, 32, 8, False), [8, 16, 24, 32]),
        ((8, 8, 0, False), [8]),
        ((8, 8, 1, True), [8]),
        ((64, 8, 2, True), []),
        ((0, 64, 2, True), None),
        ((8, 64, 1, True), None),
        ((8, 64, 0, False), None),
        ((1, 10**17, 1, False), None),
    ],
)
def test_sizes(sweep, wanted):
    assert sizes(sweep) == wanted


class TestSwept:
    SWEEP = (1024, 4096, 2, True)

    @pytest.mark.parametrize("counts", [(1024, 2048, 4096), (1024, 2048, 4096, 1024, 2048, 4096), (1008, 2032, 4080)])
    def test_whole(self, counts):
        """Also made twice (-N 2), and of ranks that do not divide the sizes."""
        assert swept(self.SWEEP, rows(*counts), 3) is None

    def test_a_sweep_of_several_types(self):
        assert swept(self.SWEEP, rows(1024, 2048, 4096) + rows(1024, 2048, 4096, dtype="half"), 2) is None

    @pytest.mark.parametrize(
        "counts",
        [
            (1024, 2048),
            (2048, 4096),
            (1024, 2048, 2048, 4096),
            (1024, 4096, 2048),
            (1024, 2048, 8192),
            (1024, 2048, 3000),
        ],
    )
    def test_not_whole(self, counts):
        assert swept(self.SWEEP, rows(*counts), 3)

    def test_a_sweep_of_no_sizes(self):
        assert "has no sizes" in str(swept((8, 4, 2, True), rows(8), 2))


@pytest.mark.parametrize(("average", "fits"), [("10", True), ("10.004", True), ("10.006", False), ("9.9", False)])
def test_averaged(average, fits):
    assert (averaged(general(average), rows(1024, 2048)) is None) == fits


@pytest.mark.parametrize(
    ("ranks", "says"),
    [
        ([0, 1, 2, 3], None),
        ([3, 1, 0, 2], None),
        ([0], None),
        ([0, 1, 1, 2], "rank 1 is in the table of devices 2 times"),
        ([0, 1, 3], "1 of 4 ranks are not in the table of devices, the first is 2"),
        ([143], "143 of 144 ranks are not in the table of devices, the first is 0"),
        ([0, 9999999], "9999998 of 10000000 ranks are not in the table of devices, the first is 1"),
    ],
)
def test_ranked(ranks, says):
    assert ranked(ranks) == says
