"""The figures, one for each experiment that measures something a table does not show better: its title, which is true of
what is recorded, and its panels, side by side.

    dots(table, columns, axis, ...)           a row of the table is a row of the panel, in the text's order
    lines(table, columns, x axis, axis, ...)  x is the number in a row's name, or the column `x`; `log` names the logarithmic axes
    spans(tables, columns, axis)              a time line per table: when something began, how long it took, what it was

rows    which rows: a regular expression; its group `row` is what is shown (or x), `line` tells lines (or colours) apart
by      a column that tells lines apart, and their names: points without a line
ring    the predicted column of each column; or (predicted, measured): the column is divided by their ratio
then    the columns of the text's own number, or {row: (least, most)}; times `of`; `said` is who gave it
limit   (name, number), or where it stands: (table, row, column), or (table, row, column, divisor)
at      (name, x), said in the text; join: a row's dots are joined; key: lines are named in a key, not at their ends
"""
from dataclasses import dataclass


@dataclass
class Panel:
    kind: str
    table: str
    columns: list
    axis: str
    x_axis: str = ""
    x: str = ""
    log: str = ""
    rows: str = r"(?P<row>.*)"
    by: tuple = ()
    names: tuple = ()
    ring: list = ()
    then: list = ()
    of: float = 1
    said: str = "the text"
    limit: list = ()
    at: list = ()
    join: bool = False
    key: bool = False

    def __post_init__(self):
        self.columns = [self.columns] if isinstance(self.columns, str) else self.columns
        self.ring = [self.ring] if isinstance(self.ring, str) else self.ring


def dots(table, columns, axis, **more):
    return Panel("dots", table, columns, axis, **more)


def lines(table, columns, x_axis, axis, **more):
    return Panel("lines", table, columns, axis, x_axis, **more)


def spans(tables, columns, axis):
    return Panel("spans", tables, columns, axis)


ONE = [("equal", 1)]
LINK = [("the link", ("GB/s: memory, bytes", "the link, at most", "up"))]
WAYS = ["1.0, 1.1", "1.2, 1.3", "5.x to now"]
HALVES = r"(?P<row>.*), (?P<line>chunks|interleaved)"
SIZES = r"(?P<row>.*), 100000"
STEP = r"step (?P<row>\d)"
USES = {"both read in turn": "both read, ms", "both write in turn": "both write, ms", "device reads little, once": "reads little, ms",
        "device reads all, often": "reads all, ms"}
SHAPES, SHAPE_MS = "block, 16384 x 16384", ["RowCol ms", "diagonal ms", "ColRow ms"]

FIGURES = {
    "01_memory_model": {
        "registers": ("344 spilled bytes per thread make a kernel 20 times as slow",
                      dots("budget", "local bytes", "bytes spilled"), dots("budget", "ms", "ms", ring="ms predicted")),
        "local_arrays": ("From 8 to 100 words a run-time index takes 2 to 5 times as long",
                         lines("array, index", "ms", "words of a thread's array", "ms", rows=r"int\[(?P<row>\d+)\], (?P<line>.*)", log="xy")),
        "constant": ("Different words of constant memory come one after another",
                     lines("different words per warp", ["ms", "ms, global memory"], "different words that a warp reads", "ms",
                           rows=r"(?P<row>\d+)", names=["constant", "global"], ring=["predicted ms"], log="xy")),
        "latency": ("Shared memory answers in 23 cycles, device memory in 688",
                    dots("a load from", "cycles", "cycles", log="x", then={
                        "shared": (1, 1), "constant, hit": (1, 1), "global, in L1": (1, 1), "read-only, hit": (1, 1), "texture, hit": (1, 1),
                        "register: a multiply-add": (1, 1), "global, in memory": (200, 800)}),
                    lines("a ring of", "cycles through L1", "bytes of the ring", "cycles", log="xy")),
        "dependent": ("Sixteen warps hide a multiply-add's latency; six do not",
                      lines("on each multiprocessor", "ms", "threads on each multiprocessor", "ms", x="threads", ring="predicted ms",
                            log="xy", at=[("the study: 192 are enough", 192)])),
        "carveout": ("L1 and shared memory divide 256 KiB: what one takes, the other lacks",
                     dots("asked for", "largest ring, KiB", "KiB of the largest ring that stays in L1", ring="L1 KiB predicted")),
        "timing": ("A host's timer that does not wait sees 2% of the kernel's time",
                   dots("clock", "ms", "ms"), dots("100 launches of one block", "us per launch", "us per launch")),
    },
    "02_memory_management": {
        "transfer": ("Pinned memory comes near the link's rate, pageable does not",
                     lines("GB/s: memory, bytes", ["up", "down"], "bytes", "GB/s", rows=r"(?P<line>pageable|pinned), (?P<row>.*)",
                           names=["to the device", "back"], ring=["predicted up"], limit=LINK, log="x")),
        "allocation": ("Reuse takes 7 us; cudaMalloc takes 100 and more, pinning 1,000",
                       lines("us per iteration", ["reused", "cudaMalloc", "pool", "pool that keeps", "cudaMallocHost"], "bytes", "us", log="xy")),
        "batching": ("1,024 small copies take nine times as long as one",
                     lines("arrays", ["ms: copies", "packed", "a list"], "copies that carry 16 MiB", "ms",
                           names=["copies", "packed first", "one call, a list"], ring=["predicted"], log="xy")),
        "keep_on_device": ("A step on the GPU is faster than fetching the data, up to 16 MiB",
                           lines("us, a step over", ["one block", "host and back", "host's step"], "bytes of a step", "us", log="xy")),
        "zero_copy": ("All in place a sum takes 0.38 ms, by pageable copies 2.4",
                      dots("C = A + B, 8 MiB each", "ms", "ms"), dots("C = A + B, 8 MiB each", "GB/s over the bus", "GB/s over the bus")),
        "reuse": ("Read eight times, a copy pays: 372 GB/s, in place 48",
                  lines("passes, GB/s", ["read in place", "of a copy", "on device"], "passes over the array", "GB/s",
                        names=["in place", "copied first", "on the device"], ring=["", "predicted"], log="xy")),
        "pitch": ("Pitched rows gain only beyond 2 KiB, and lose before",
                  lines("bytes per row", "packed / pitched", "bytes per row", "time of packed / pitched", by=("word", "%g-byte words"), limit=ONE, log="x", key=True)),
        "overlap": ("Four streams and 16 chunks come within 7% of the slowest part",
                    lines("ms: chunks", ["1 stream", "2 streams", "4 streams"], "chunks", "ms", rows=r"(?P<row>\d+)", ring=["", "", "predicted 4"],
                          log="x", limit=[("copies both ways alone", ("a stage of the whole array", "up and down at once", "ms"))])),
        "engines": ("A copy within the device waits for the multiprocessors",
                    dots("operation", ["alone, us", "beside, us"], "us, from the call to the end", log="x", names=["alone", "beside full multiprocessors"])),
        "peer": ("With peer access a copy is eleven times as fast", dots("GB/s", "measured", "GB/s")),
    },
    "03_access_patterns": {
        "coalescing": ("Time follows the 64-byte pieces that move, not the lanes' order",
                       dots("a load", "sectors/request", "sectors per request", log="x"), dots("a load", "64-byte pieces", "64-byte pieces", log="x"),
                       dots("a load", "ns per 1000 loads", "ns per 1000 loads", log="x")),
        "stride": ("Every doubling of the stride halves the rate, up to 16 words",
                   lines("stride, words", "GB/s", "stride, words of 4 bytes", "GB/s of words that are read", ring="by 64 bytes", log="xy")),
        "structs": ("If only x is read, an SoA takes about half an AoS's time",
                    dots("layout", ["load", "store"], "sectors per request"), dots("layout", "ms", "ms")),
        "offset": ("A word off the alignment costs a fifth of the rate",
                   lines("offset", "GB/s", "offset, words", "GB/s from L2", ring="L2: predicted"),
                   lines("offset", ["memory: through L1", "past L1"], "offset, words", "GB/s from memory", names=["through L1", "past L1"])),
        "word_size": ("A scattered 4-byte word costs 7.8 times as much; on a G80, ten",
                      dots("words", "GB/s", "GB/s"), dots("words", "cost", "times a word's cost in order", ring="by sectors", then=["cost on a G80"], said="a G80")),
        "caching": ("Past L1 a second load waits again: 312 cycles, and not 49",
                    dots("one lane, a load after", ["cycles, .ca", ".cg"], "cycles", names=["through L1", "past L1"])),
        "fetch_size": ("Told to fetch 32 bytes, the L2 serves stride 16 {plain loads | stride 16 | limit 32 : plain loads | stride 16 | limit 64} times as fast",
                       dots("plain loads", ["limit 32", "limit 64", "limit 128"], "GB/s of words that are read", log="x",
                            ring=["predicted 32", "predicted 64", "predicted 128"])),
        "stores": ("At stride 8 a written word costs 18 times as much, a read one 7.6",
                   lines("words", "GB/s", "stride, words", "GB/s", rows=r"(?P<line>read|written), stride (?P<row>\d+)",
                         ring=[("predicted ms", "ms")], log="xy")),
        "reverse": ("The detour through shared memory now costs 9%",
                    dots("kernel", "store on a G80", "transactions of a store, on a G80"), dots("kernel", "ms", "ms", ring="predicted ms")),
        "work_split": ("Interleaved beats chunks, except with one load in flight",
                       dots("who adds up, and how", "sectors/request", "sectors per request", rows=HALVES, join=True),
                       dots("who adds up, and how", "GB/s", "GB/s", rows=HALVES, join=True, log="x")),
        "matmul": ("Multiplying by the transposed B takes 13 times as long",
                   dots("n 1024", ["of A", "of B"], "sectors that a step touches"), dots("n 1024", "ms", "ms; ring: L1's own time", ring="at least")),
        "unroll": ("Two words per thread are enough; one leaves a tenth of the rate",
                   dots("a thread adds", "bytes loaded at once", "bytes that a thread loads at once"), dots("a thread adds", "GB/s", "GB/s")),
        "compare": ("Scattered results cost 19 times the comparison, packed bits 1.2",
                    dots("results", ["ms", "to host: ms"], "ms", names=["compared and stored", "carried to the host"], log="x")),
        "dictionary": ("A thread per position: all in 0.42 ms, and not in 3.6 s",
                       dots("who searches, or copies", "all: ms", "ms for all of the text", log="x", then=["then: s", "to"], of=1000, said="an 8800 GTX, estimated")),
    },
    "04_bandwidth": {
        "peak": ("The simplest kernels reach 91 to 98% of the memory's rate",
                 dots("4 GiB per array", "GB/s", "GB/s", ring=[("predicted ms", "ms")],
                      limit=[("theory", ("4 GiB per array", "copy", "GB/s", "theory"))])),
        "in_flight": ("The bytes in flight decide; how they are asked for, up to 16%",
                      lines("per thread, threads per SM", "GB/s", "KiB in flight", "GB/s", x="KiB in flight", rows=r"(?P<line>.*), (?P<row>\d+)",
                            ring="predicted", log="xy", key=True)),
        "contiguous": ("What counts is how many contiguous bytes are requested together",
                       *(lines(what + ", window", ["64 B", "128 B", "256 B", "1 KiB", "4 KiB"], "bytes within which chunks are shuffled",
                               "GB/s, " + what + "; lines: bytes of a chunk", rows=r"(?P<row>\d.*)", log="x") for what in ("read", "written"))),
        "transpose": ("Scattered stores: 5.3 ms, scattered loads: 1.3, a padded tile: 0.8",
                      dots("16384 x 16384", ["load", "store"], "sectors per request"), dots("16384 x 16384", "ms", "ms", ring="predicted ms")),
        "block_shape": ("Wide blocks scatter stores: 32 x 8 takes 5.2 ms, 8 x 32 takes 1.3",
                        dots(SHAPES, "sectors/store", "sectors per store"),
                        dots(SHAPES, SHAPE_MS, "ms", ring=["predicted ms"], names=["row to column", "diagonal", "column to row"])),
        "sum": ("By rows float4 now wins; in 2007 it lost",
                dots("order", "GB/s", "GB/s", log="x", then=["in 2007"], said="in 2007", limit=[("theory", ("order", "by rows, float4", "GB/s", "theory"))])),
        "threads": ("One thread beyond 256 costs 43% of the rate: fewer blocks fit",
                    lines("threads per block", "GB/s", "threads per block", "GB/s", ring=[("predicted ms", "ms")])),
        "blocks": ("One block more than fit at once costs 38% of the rate",
                   lines("blocks", "GB/s", "blocks", "GB/s", ring=[("predicted ms", "ms")])),
        "async_copy": ("Bytes in flight decide, not who asks for them",
                       lines("sum", "GB/s", "KiB in flight on a multiprocessor", "GB/s", x="KiB in flight", rows=r"(?P<line>plain|async_ring)(?P<row>.*)", log="x")),
    },
    "05_unified_memory": {
        "managed": ("Managed memory on demand takes 11 times as long as pinned copies", dots("way", "ms", "ms, from host to host")),
        "page_faults": ("A warp per page cuts the groups of page faults to a sixteenth",
                        *(dots(way, "count", way + ": count", then=["1080 Ti"], said="a GTX 1080 Ti", log="x") for way in ("stream_thread", "stream_warp")),
                        dots("stream_warp", "ms", "stream_warp: ms", then=["1080 Ti, ms"], said="a GTX 1080 Ti")),
        "fault_times": ("Prefetched both ways, 12 MiB move in six pieces",
                        spans(["stream_thread", "stream_warp", "prefetched", "both ways"],
                              ["groups of GPU faults", "bytes to device", "bytes to host"], "ms since the first event")),
        "prefetch_overlap": ("On demand: 6.1 ms; a prefetch, then the kernel: 1.2",
                             dots("way", "ms", "ms for 32 MiB", ring="predicted, ms")),
        "advise": ("No advice fits all four uses: read mostly costs writers 14 times",
                   *(dots(use, "ms", axis, log="x", ring="predicted") for use, axis in USES.items())),
        "linked_list": ("Copied node by node a list takes 80 times as long as in one piece", dots("way", "ms", "ms", log="x")),
    },
    "06_shared_reduce": {
        "ladder": ("From the guide's first sum to few blocks: seven times as fast",
                   dots("kernel", "wavefronts", "wavefronts of a block"), dots("kernel", "GB/s", "GB/s")),
        "one_pass": ("One launch sums as fast as CUB, and faster where data are few",
                     lines("floats", ["sum_once GB/s", "CUB GB/s"], "floats", "GB/s", names=["sum_once", "CUB"], log="x")),
        "divergence": ("Modulo: each active warp diverges; otherwise one at most",
                       *(lines(order, ["active", "divergent"], order + ": step", "warps", rows=STEP, key=True) for order in ("modulo", "strided", "descending"))),
        "branches": ("Paths within a warp add up; paths by warp cost less than 8%",
                     lines("paths", "ms", "paths", "ms", rows=r"(?P<row>\d+) (?P<line>in a warp|by warp)", ring="predicted ms", log="xy")),
        "barriers": ("A barrier costs up to 18%, where rounds have four steps",
                     lines("on each SM, steps of a round", "of apart", "steps of a round", "time with a barrier / without",
                           rows=r"(?P<line>blocks of \d+), (?P<row>\d+)", limit=ONE, log="x")),
        "banks": ("Conflicts cost a cycle each: stride 32 takes 32, stride 33 one",
                  dots("stride, words", ["4 bytes", "8 bytes", "16 bytes"], "cycles of a warp's load, by stride in words", log="x",
                       ring=["predicted for 4", "predicted for 8", "predicted for 16"])),
        "shared_size": ("A block that takes 128 KiB is alone, and at 42% of the rate",
                        dots("a block asks for", "blocks", "blocks on a multiprocessor", ring="predicted blocks"), dots("a block asks for", "GB/s", "GB/s")),
        "small_matrices": ("100,000 small inverses: ours is 4 to 17 times as fast as cuBLAS",
                           lines("size, matrices", ["copy ms", "ours ms", "matinv ms", "getrf, getri ms"], "rows of a matrix", "ms",
                                 rows=SIZES, names=["a copy", "ours", "matinv", "getrf, getri"], log="xy")),
    },
    "07_texture_readonly": {
        "read_only": ("Scattered reads take 1.94 to 1.97 ms, whichever load is used",
                      dots("kernel", "in order, ms", "in order, ms"), dots("kernel", "scattered, ms", "scattered, ms")),
        "locality": ("By columns a texture reads 3.2 times as fast; by rows loads win",
                     dots("walk, GB/s", "sectors/request", "sectors per request"), dots("walk, GB/s", ["loads", "array", "pitched"], "GB/s")),
        "texture_unit": ("Textures: a volume by depth gains 46%, normalised rows lose 22%",
                         dots("read, GB/s", ["__ldg", "array", "pitched"], "GB/s", names=["load, __ldg", "texture of an array", "of pitched rows"])),
        "objects": ("A fetch from L1 takes 41 cycles longer than a load",
                    dots("a read, cycles", ["load", "fetch"], "cycles", ring=["", "predicted"])),
    },
}

WITHOUT = {"device": "sizes of this GPU, most of them without a comparison", "symbols": "values, not measures", "pointers": "addresses",
           "bandwidths": "two numbers", "yours": "two rows, of what a reader types", "tensor_copy": "three times the same number",
           "sort_file": "three numbers, one 300 times the others", "system_memory": "four numbers, and here two rows have none",
           "dimensions": "kinds and limits", "sampling": "readings by coordinate; nothing is timed"}
