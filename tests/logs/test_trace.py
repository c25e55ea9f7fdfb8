"""A profiler's trace, read as it comes in."""

import gzip
import json

import pytest

from fitgauge.errors import InvalidRequestError
from fitgauge.logs import trace
from fitgauge.logs.trace import TraceReader, covered


def kernel(name, start, length, *, device=0, category="kernel"):
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": device,
        "tid": 7,
        "ts": start,
        "dur": length,
        "args": {"device": device},
    }


EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 500},
    kernel("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 100, 40),
    kernel("void at::native::vectorized_elementwise_kernel<4>", 140, 10),
    kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 130, 40),
    kernel("Memcpy HtoD (Pageable -> Device)", 190, 10, category="gpu_memcpy"),
]


def written(events, device="NVIDIA A100-SXM4-80GB"):
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": device}],
        "traceEvents": events,
        "traceName": "x.pt.trace.json",
    }
    return json.dumps(head, indent=1).encode()


def read(data, size=7):
    reader = TraceReader()
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    return reader.finish()


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("packed", [False, True])
def test_shares_are_those_of_the_time_from_the_first_kernel_to_the_last(size, packed):
    data = written(EVENTS)
    reading = read(gzip.compress(data) if packed else data, size)
    assert reading.seconds == pytest.approx(100e-6)
    assert reading.busy == pytest.approx(0.8)
    assert reading.communication == pytest.approx(0.4)
    assert reading.exposed == pytest.approx(0.2)
    assert reading.tensor_core == pytest.approx(40 / 90)
    assert reading.collectives == {"AllGather": 40}
    assert reading.device == "NVIDIA A100-SXM4-80GB"
    assert (reading.gpus, reading.kernels_seen) == (1, 4)


def test_gpus_are_counted_each_for_itself():
    reading = read(
        written([kernel("gemm_s16816", 0, 10, device=0), kernel("gemm_s16816", 5, 20, device=1)])
    )
    assert (reading.gpus, reading.busy) == (2, 1)


def test_overlapping_spans_count_once():
    assert covered([(0, 10), (2, 5), (8, 12), (20, 21)]) == 13


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"hello, this is no trace at all",
        b"\x1f\x8bgarbage after the magic number",
        written(EVENTS)[:-40][: written(EVENTS).index(b'"gpu_memcpy"')],
        gzip.compress(written(EVENTS))[:-30],
        b'{"traceEvents": [' + b"x" * (trace.LONGEST_EVENT + 10) + b"]}",
        b" " * (trace.LONGEST_EVENT + 10),
    ],
)
def test_what_is_no_trace_is_refused(data):
    with pytest.raises(InvalidRequestError, match="no trace"):
        read(data, 65536)


def test_a_trace_without_kernels_says_how_to_record_them():
    with pytest.raises(InvalidRequestError, match="no GPU kernels"):
        read(written(EVENTS[:1]))


def test_a_bomb_is_refused_long_before_it_is_unpacked():
    bomb = gzip.compress(b'{"traceEvents": [' + b" " * (64 * 1024 * 1024))
    reader = TraceReader()
    with pytest.raises(InvalidRequestError, match="beyond what profilers write"):
        reader.feed(bomb)
    assert reader._unpacked < 32 * 1024 * 1024


def test_a_bomb_of_events_without_content_is_refused():
    bomb = gzip.compress(b'{"traceEvents": [' + b"{}," * 4_000_000)
    with pytest.raises(InvalidRequestError, match="shorter than a profiler"):
        read(bomb, 65536)


def test_more_kernels_than_are_kept_are_refused(monkeypatch):
    monkeypatch.setattr(trace, "MOST_KERNELS", 3)
    with pytest.raises(InvalidRequestError, match="more than 3 kernels"):
        read(written(EVENTS))


def test_events_with_absurd_numbers_are_left_out():
    odd = [
        kernel("a", float("nan"), 1),
        kernel("b", -1, 1),
        kernel("c", 0, 1e13),
        {"cat": "kernel"},
        {"cat": "kernel", "ts": "1", "dur": 1},
        7,
    ]
    assert read(written([*odd, *EVENTS])).kernels_seen == 4


def test_a_number_of_thousands_of_digits_is_no_event():
    with pytest.raises(InvalidRequestError, match="no trace"):
        read(
            b'{"traceEvents": [{"cat": "kernel", "name": "a", "ts": 1, "dur": '
            + b"9" * 5000
            + b"}]}",
            65536,
        )


@pytest.mark.parametrize("size", [3, 65536])
def test_members_of_a_gzip_file_follow_each_other(size):
    data = written(EVENTS)
    packed = gzip.compress(data[:300]) + gzip.compress(data[300:])
    assert read(packed, size) == read(data)
    assert read(packed + b"\0" * 512, size) == read(data)


@pytest.mark.parametrize(
    "name",
    [
        "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT",
        (
            "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90"
            "<flash::CollectiveMainloopFwdSm90"
        ),
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1",
        "triton_tem_fused_mm_0",
        "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
    ],
)
def test_matrix_units_are_known_by_the_names_that_libraries_give_their_kernels(name):
    assert (
        read(written([kernel(name, 0, 10), kernel("triton_poi_fused_add_0", 10, 10)])).tensor_core
        == 0.5
    )
