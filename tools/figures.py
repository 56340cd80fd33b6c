"""The figures, one for each experiment that measures something a table does not show better: its title, which is true of
what is recorded, since its numbers are (plot.py, titled), and its panels, side by side.

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
HALVES = r"(?P<row>.*), (?P<line>chunks|interleaved)"
SIZES = r"(?P<row>.*), 100000"
STEP = r"step (?P<row>\d)"
USES = {"both read in turn": "both read, ms", "both write in turn": "both write, ms", "device reads little, once": "reads little, ms",
        "device reads all, often": "reads all, ms"}
SHAPES, SHAPE_MS = "block, 16384 x 16384", ["RowCol ms", "barrier ms", "diagonal ms", "ColRow ms"]

FIGURES = {
    "01_memory_model": {
        "registers": ("{__maxnreg__(32) | local bytes} spilled bytes make a kernel {__maxnreg__(32) | ms : launch bounds | ms} times as slow",
                      dots("budget", "local bytes", "bytes spilled"), dots("budget", "ms", "ms", ring="ms predicted")),
        "local_arrays": ("With int[8], a run-time index takes {int[8], run-time index | ms : int[8], constant index | ms} times as long",
                         lines("array, index", "ms", "words of a thread's array", "ms", rows=r"int\[(?P<row>\d+)\], (?P<line>.*)", log="xy")),
        "constant": ("Different words of constant memory come one after another",
                     lines("different words per warp", ["ms", "ms, global memory"], "different words that a warp reads", "ms",
                           rows=r"(?P<row>\d+)", names=["constant", "global"], ring=["predicted ms"], log="xy")),
        "constant_cache": ("A load takes {constant, ring of 2 KiB | cycles} cycles up to 2 KiB, {constant, ring of 4 KiB | cycles} in larger rings, {constant, first touch | cycles} if it misses",
                           dots("one thread, each load waits for the one before", "cycles", "cycles", log="x")),
        "latency": ("Shared memory answers in {shared | cycles} cycles, device memory in {global, in memory | cycles}",
                    dots("a load from", "cycles", "cycles", log="x", then={
                        "shared": (1, 1), "constant, hit": (1, 1), "global, in L1": (1, 1), "read-only, hit": (1, 1), "texture, hit": (1, 1),
                        "register: a multiply-add": (1, 1), "global, in memory": (200, 800)}),
                    lines("a ring of", "cycles through L1", "bytes of the ring", "cycles", log="xy")),
        "dependent": ("Many warps hide a multiply-add's latency; the study's six do not",
                      lines("on each multiprocessor", "ms", "threads on each multiprocessor", "ms", x="threads", ring="predicted ms",
                            log="xy", at=[("the study: 192 are enough", 192)])),
        "carveout": ("L1 and shared memory divide one array: what one takes, the other lacks",
                     dots("asked for", "largest ring, KiB", "KiB of the largest ring that stays in L1", ring="L1 KiB predicted"),
                     dots("a ring around the first row's edge", "cycles", "cycles")),
        "timing": ("A host's timer that does not wait sees {host | ms : events | ms !%}% of the kernel's time",
                   dots("clock", "ms", "ms"), dots("a short kernel", "us", "us", log="x"), dots("100 launches of one block", "us per launch", "us per launch")),
    },
    "02_memory_management": {
        "transfer": ("Pinned memory comes near the link's rate, pageable does not",
                     lines("GB/s: memory, bytes", ["up", "down"], "bytes", "GB/s", rows=r"(?P<line>pageable|pinned), (?P<row>.*)",
                           names=["to the device", "back"], ring=["predicted up"], limit=LINK, log="x")),
        "allocation": ("Reusing 1 MiB takes {1 MiB | reused} us, cudaMalloc {1 MiB | cudaMalloc}, pinning {1 MiB | cudaMallocHost}",
                       lines("us per iteration", ["reused", "cudaMalloc", "pool", "pool that keeps", "cudaMallocHost"], "bytes", "us", log="xy"),
                       dots("pinning 16 MiB", "ms", "ms to pin 16 MiB, and to undo it", ring="predicted")),
        "batching": ("A thousand small copies take {1024 of 16 KiB | ms: copies : 1 of 16 MiB | ms: copies} times as long as one",
                     lines("arrays", ["ms: copies", "packed", "a list"], "copies that carry 16 MiB", "ms",
                           names=["copies", "packed first", "one call, a list"], ring=["predicted"], log="xy")),
        "keep_on_device": ("A step on the GPU is faster than fetching the data to the host",
                           lines("us, a step over", ["one block", "host and back", "host's step"], "bytes of a step", "us", log="xy")),
        "zero_copy": ("All in place a sum takes {all in place | ms} ms, by pageable copies {pageable copies | ms}",
                      dots("C = A + B, 8 MiB each", "ms", "ms"), dots("C = A + B, 8 MiB each", "GB/s over the bus", "GB/s over the bus")),
        "reuse": ("Read eight times, a copy pays: {8 | of a copy} GB/s, in place {8 | read in place}",
                  lines("passes, GB/s", ["read in place", "of a copy", "on device"], "passes over the array", "GB/s",
                        names=["in place", "copied first", "on the device"], ring=["", "predicted"], log="xy")),
        "pitch": ("A pitch helps long rows, and slows short ones down",
                  lines("bytes per row", "packed / pitched", "bytes per row", "time of packed / pitched", by=("word", "%g-byte words"), limit=ONE, log="x", key=True)),
        "overlap": ("Four streams and 16 chunks take {16 | 4 streams : 1 | 4 streams !%}% of the time of one chunk",
                    lines("ms: chunks", ["1 stream", "2 streams", "4 streams"], "chunks", "ms", rows=r"(?P<row>\d+)", ring=["predicted 1", "", "predicted 4"],
                          log="x", limit=[("copies both ways alone", ("a stage of the whole array", "up and down at once", "ms"))]),
                    spans(["stream %d" % stream for stream in range(4)], ["up", "kernel", "down"], "ms since the first copy began")),
        "engines": ("A copy within the device waits for the multiprocessors",
                    dots("operation", ["alone, us", "beside, us"], "us, from the call to the end", log="x", names=["alone", "beside full multiprocessors"]),
                    dots("in one stream", "us each", "us per operation of a stream", ring="predicted")),
        "peer": ("With peer access a copy is {copy, peer access on | measured : copy, peer access off | measured} times as fast", dots("GB/s", "measured", "GB/s")),
    },
    "03_access_patterns": {
        "coalescing": ("Permuted lanes take no longer, scattered ones {scattered | of in order} times as long",
                       dots("a load", "sectors/request", "sectors per request", log="x"), dots("a load", "64-byte pieces", "64-byte pieces", log="x"),
                       dots("a load", "ns per 1000 loads", "ns per 1000 loads", log="x")),
        "stride": ("Doubling the stride halves the rate, as long as more bytes move",
                   lines("stride, words", "GB/s", "stride, words of 4 bytes", "GB/s of words that are read", ring="by 64 bytes", log="xy")),
        "structs": ("If only x is read, an SoA takes {SoA, x only read | ms : AoS, x only read | ms !%}% of an AoS's time",
                    dots("layout", ["load", "store"], "sectors per request"), dots("layout", "ms", "ms")),
        "offset": ("A word off the alignment leaves {1 | memory: through L1 : 0 | memory: through L1 !%}% of the rate",
                   lines("offset", "GB/s", "offset, words", "GB/s from L2", ring="L2: predicted"),
                   lines("offset", ["memory: through L1", "past L1"], "offset, words", "GB/s from memory", names=["through L1", "past L1"])),
        "word_size": ("A scattered 4-byte word costs {4 bytes in 32 | cost} times as much; on a G80, {4 bytes in 32 | cost on a G80}",
                      dots("words", "GB/s", "GB/s"), dots("words", "cost", "times a word's cost in order", ring="by sectors", then=["cost on a G80"], said="a G80")),
        "caching": ("Past L1 a second load waits again: {a load of the word | .cg} cycles, and not {a load of the word | cycles, .ca}",
                    dots("one lane, a load after", ["cycles, .ca", ".cg"], "cycles", names=["through L1", "past L1"])),
        "fetch_size": ("Told to fetch 32 bytes, the L2 serves stride 16 {stride 16 | limit 32 : stride 16 | limit 64} times as fast",
                       dots("plain loads", ["limit 32", "limit 64", "limit 128"], "GB/s of words that are read", log="x",
                            ring=["predicted 32", "predicted 64", "predicted 128"])),
        "stores": ("At stride 8 a read word costs {read, stride 1 | GB/s : read, stride 8 | GB/s} times as much, a written one {written, stride 1 | GB/s : written, stride 8 | GB/s}",
                   lines("words", "GB/s", "stride, words", "GB/s", rows=r"(?P<line>read|written), stride (?P<row>\d+)",
                         ring=[("predicted ms", "ms")], log="xy")),
        "reverse": ("The detour through shared memory now costs {reverseArray_multiblock_fast | ms : reverseArray_multiblock | ms !+%}%",
                    dots("kernel", "store on a G80", "transactions of a store, on a G80"), dots("kernel", "ms", "ms", ring="predicted ms")),
        "work_split": ("Interleaved beats chunks, except with one load in flight",
                       dots("who adds up, and how", "sectors/request", "sectors per request", rows=HALVES, join=True),
                       dots("who adds up, and how", "GB/s", "GB/s", rows=HALVES, join=True, log="x")),
        "matmul": ("Multiplying by the transposed B takes {matrix_mul_gpu_opt | ms : matrix_mul_gpu | ms} times as long",
                   dots("n 1024", ["of A", "of B"], "sectors that a step touches"), dots("n 1024", "ms", "ms; ring: L1's own time", ring="at least")),
        "unroll": ("One word per thread reaches {1 word | GB/s : 2 words | GB/s !%}% of what two reach; more add nothing",
                   dots("a thread adds", "bytes loaded at once", "bytes that a thread loads at once"), dots("a thread adds", "GB/s", "GB/s")),
        "compare": ("Scattered results cost {scattered words | times as long} times the comparison, packed bits {bits packed by a warp | times as long}",
                    dots("results", ["ms", "to host: ms"], "ms", names=["compared and stored", "carried to the host"], log="x")),
        "dictionary": ("A thread per position takes {thread_per_position | all: ms} ms, a thread per word {BFWrap, a thread per word | all: ms}",
                       dots("who searches, or copies", "all: ms", "ms for all of the text", log="x", then=["then: s", "to"], of=1000, said="an 8800 GTX, estimated")),
    },
    "04_bandwidth": {
        "peak": ("The simplest kernels reach {copy | theory !%} to {write | theory !%}% of the memory's rate",
                 dots("4 GiB per array", "GB/s", "GB/s", ring=[("predicted ms", "ms")],
                      limit=[("theory", ("4 GiB per array", "copy", "GB/s", "theory"))])),
        "in_flight": ("The bytes in flight decide, and hardly how they are asked for",
                      lines("per thread, threads per SM", "GB/s", "KiB in flight on a multiprocessor", "GB/s", x="KiB in flight", rows=r"(?P<line>.*), (?P<row>\d+)",
                            ring="predicted", log="xy", key=True)),
        "contiguous": ("What counts is how many contiguous bytes are requested together",
                       *(lines(what + ", window", ["64 B", "128 B", "256 B", "1 KiB", "4 KiB"], "bytes within which chunks are shuffled",
                               "GB/s, " + what + "; lines: bytes of a chunk", rows=r"(?P<row>\d.*)", log="x") for what in ("read", "written"))),
        "transpose": ("Scattered stores take {transposeRowCol | ms} ms, scattered loads {transposeColRow | ms}, a padded tile {padded_tile | ms}",
                      dots("16384 x 16384", ["load", "store"], "sectors per request"), dots("16384 x 16384", "ms", "ms", ring="predicted ms")),
        "block_shape": ("Wide blocks scatter stores: 32 x 8 takes {32 x 8 | RowCol ms} ms, 8 x 32 takes {8 x 32 | RowCol ms}",
                        dots(SHAPES, "sectors", "sectors per store"),
                        dots(SHAPES, SHAPE_MS, "ms", ring=["predicted ms"], names=["row to column", "after a barrier", "diagonal", "column to row"])),
        "sum": ("By rows float4 now wins; in 2007 it lost",
                dots("order", "GB/s", "GB/s", log="x", then=["in 2007"], said="in 2007", limit=[("theory", ("order", "by rows, float4", "GB/s", "theory"))]),
                dots("moved", ["ms", "L1, at least ms"], "ms", log="x", names=["measured", "at least, by L1's lines"])),
        "threads": ("One thread beyond 256 costs {257 | GB/s : 256 | GB/s !-%}% of the rate: fewer blocks fit",
                    lines("threads per block", "GB/s", "threads per block", "GB/s", ring=[("predicted ms", "ms")]),
                    dots("times off the best, threads", ["1024 blocks", "32 per SM", "one per row"], "times the best time", log="x", then=["in 2007"], said="in 2007")),
        "blocks": ("The rate falls where one block more than fit at once is launched",
                   lines("blocks", "GB/s", "blocks", "GB/s", ring=[("predicted ms", "ms")], log="x")),
        "async_copy": ("Bytes in flight decide, not who asks for them",
                       lines("sum", "GB/s", "KiB in flight on a multiprocessor", "GB/s", x="KiB in flight", rows=r"(?P<line>plain|async_ring)(?P<row>.*)", log="x")),
    },
    "05_unified_memory": {
        "managed": ("Managed memory on demand takes {managed, on demand | times pinned copies} times as long as pinned copies", dots("way", "ms", "ms, from host to host")),
        "page_faults": ("A warp per page cuts {stream_thread | GPU fault groups | count} groups of page faults to {stream_warp | GPU fault groups | count}",
                        *(dots(way, "count", way + ": count", then=["1080 Ti"], said="a GTX 1080 Ti", log="x") for way in ("stream_thread", "stream_warp")),
                        dots("version", ["kernel, ms", "host to host, ms"], "ms", log="x")),
        "fault_times": ("Prefetched both ways, all moves in a few large pieces",
                        spans(["stream_thread", "stream_warp", "prefetched", "both ways"],
                              ["groups of GPU faults", "bytes to device", "bytes to host"], "ms since the first event")),
        "prefetch_overlap": ("On demand it takes {on demand | ms} ms; a prefetch, then the kernel, {prefetch, then kernel | ms}",
                             dots("way", "ms", "ms for 32 MiB", ring="predicted, ms")),
        "prefetch_calls": ("The call of a prefetch to the host lasts until all is there: {to the host, 32 MiB | its calls} ms",
                           dots("prefetch", ["whole, ms", "its calls", "transfers"], "ms", log="x")),
        "advise": ("No advice fits every use: with read mostly, writing takes {both write in turn | read mostly | ms : both write in turn | no advice | ms} times as long",
                   *(dots(use, "ms", axis, log="x", ring="predicted") for use, axis in USES.items())),
        "linked_list": ("Node by node a list takes {deep copy, node by node | ms : deep copy, in one piece | ms} times as long as in one piece", dots("way", "ms", "ms", log="x")),
    },
    "06_shared_reduce": {
        "ladder": ("From the guide's first sum to the last rung: {reduce | us : reduce_vector | us} times as fast",
                   dots("kernel", "wavefronts", "wavefronts of a block"),
                   dots("kernel", "issued", "instructions per word", log="x"), dots("kernel", "GB/s", "GB/s")),
        "one_pass": ("One launch sums as fast as CUB, and faster where data are few",
                     lines("floats", ["sum_once GB/s", "CUB GB/s"], "floats", "GB/s", names=["sum_once", "CUB"], log="x")),
        "divergence": ("With modulo each active warp diverges, otherwise one at most",
                       *(lines(order, ["active", "divergent"], order + ": step", "warps", rows=STEP, key=True) for order in ("modulo", "strided", "descending"))),
        "branches": ("Paths within a warp add up; paths by warp take the time of one",
                     lines("paths", "ms", "paths", "ms", rows=r"(?P<row>\d+) (?P<line>in a warp|by warp)", ring="predicted ms", log="xy")),
        "barriers": ("A barrier costs most where rounds are short",
                     lines("on each SM, steps of a round", "of apart", "steps of a round", "time with a barrier / without",
                           rows=r"(?P<line>blocks of \d+), (?P<row>\d+)", limit=ONE, log="x")),
        "banks": ("Each conflict costs a cycle: stride 32 takes {32 | 4 bytes}, stride 33 takes {33 | 4 bytes}",
                  dots("stride, words", ["4 bytes", "8 bytes", "16 bytes"], "cycles of a warp's load, by stride in words", log="x",
                       ring=["predicted for 4", "predicted for 8", "predicted for 16"])),
        "shared_size": ("A block that takes 128 KiB is alone: {128 KiB | GB/s : 0 B | GB/s !%}% of the rate",
                        dots("a block asks for", "blocks", "blocks on a multiprocessor", ring="predicted blocks"), dots("a block asks for", "GB/s", "GB/s")),
        "small_matrices": ("Of small inverses (32 x 32) ours takes {32 x 32, 100000 | ours ms : 32 x 32, 100000 | matinv ms !%}% of cuBLAS's time",
                           lines("size, matrices", ["copy ms", "ours ms", "matinv ms", "getrf, getri ms"], "rows of a matrix", "ms",
                                 rows=SIZES, names=["a copy", "ours", "matinv", "getrf, getri"], log="xy")),
    },
    "07_texture_readonly": {
        "read_only": ("Scattered reads take the same time, whichever load is used",
                      dots("kernel", "in order, ms", "in order, ms"), dots("kernel", "scattered, ms", "scattered, ms")),
        "locality": ("By columns a texture reads {column | array gain} times as fast; by rows loads win",
                     dots("walk, GB/s", "sectors/request", "sectors per request"), dots("walk, GB/s", ["loads", "array", "pitched"], "GB/s")),
        "texture_unit": ("Textures win for a volume by depth, and lose for normalised rows",
                         dots("read, GB/s", ["__ldg", "array", "pitched"], "GB/s", names=["load, __ldg", "texture of an array", "of pitched rows"])),
        "one_cache": ("After loads a fetch takes {fetches | after loads} cycles, after nothing {fetches | after nothing}",
                      dots("cycles of", ["after nothing", "after loads", "after __ldg", "after fetches"], "cycles, the same words"),
                      dots("after 1 MiB", ["of nothing", "of loads", "of __ldg", "of fetches"], "cycles, after 1 MiB elsewhere",
                           names=["after nothing", "after loads", "after __ldg", "after fetches"])),
    },
}

WITHOUT = {"block_order": "counts of blocks, by kind of grid", "device": "sizes of this GPU, most of them without a comparison", "symbols": "values, not measures", "pointers": "addresses",
           "bandwidths": "two numbers", "yours": "two rows, of what a reader types", "tensor_copy": "three times the same number",
           "sort_file": "three numbers, one 300 times the others", "system_memory": "four numbers, and here two rows have none",
           "dimensions": "kinds and limits", "objects": "a few times of the host", "layout": "two shapes, which a drawing shows", "sampling": "readings by coordinate; nothing is timed"}
