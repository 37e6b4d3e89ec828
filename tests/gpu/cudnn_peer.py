#!/usr/bin/env python3
"""What the best cuDNN configuration does with the requests of gpu_bench: the peer of our figures on a GPU.

    cudnn_peer.py [--budget=60] [--rate=R | --load=0.3] [--lengths=FILE]   on a machine with a GPU, PyTorch and numpy
    cudnn_peer.py --device=cpu --quick                                     is the script itself right?

One LSTM layer, 1,024 wide, over whole sequences of Europarl's lengths; cuDNN computes it through torch.nn.LSTM. DTYPE
is fp16, bf16, tf32 (fp32 with TF32 allowed) or fp32 (not allowed); HOW is what a batch of B requests is:

    padded         the next B that arrived, made as long as the longest of them
    bucketed       B of one bucket of lengths (1-10, 11-20, ..), made as long as the longest of them
    packed         the next B that arrived, sorted, without padding
    bucketpacked   B of one bucket, sorted, without padding

    cudnn.saturation.DTYPE_HOW_bB.requests_per_s   batches back to back, inputs prepared before the clock starts
    cudnn.best.requests_per_s                      the best of fp16 and bf16; cudnn.best_DTYPE: of one type
    cudnn.latency.DTYPE_HOW_bB.{p50,p99}_us        open loop, Poisson arrivals, batches of what has arrived, at most B
    cudnn.best_latency.p99_us                      the least of those
    cudnn.step.DTYPE_bB.us                         a run of 64 steps of B rows, / 64

Generous to the peer: inputs lie in GPU memory, one beside the other, before anybody asks; answers stay there; nobody
sends, receives or parses a request; batches without packing are widened to a multiple of 8: PyTorch chooses cuDNN's
persistent kernels for those, in fp16 up to 128. The last state of a padded row is picked out on the GPU: an answer.

Exit code: 0; 1 nothing could be measured; 2 wrong use; 3 no PyTorch, cuDNN or GPU here, and one line says so.
"""

import argparse
import collections
import gc
import math
import os
import subprocess
import sys
import time

STARTED = time.monotonic()  # the budget pays for importing PyTorch too: the GPU is ours meanwhile

try:
    import numpy as np
    import torch
    from torch.nn.utils.rnn import PackedSequence
    MISSING = ""
except ImportError as error:
    MISSING = str(error)

MOST_LENGTH = 330  # Europarl's longest; as tests/bench/in_process.cc
BUCKET_WIDTH = 10
STEPS = 64  # of a run that is timed for one step
HALF, SINGLE = ("bf16", "fp16"), ("tf32", "fp32")
HOWS = ("packed", "padded", "bucketed", "bucketpacked")  # the most promising first
BATCHES = (512, 1024, 128, 256, 64)  # likewise
SATURATION_SHARE = 0.6  # of the budget, after which steps and latencies have their turn

Config = collections.namedtuple("Config", "dtype how b")
Batch = collections.namedtuple("Batch", "inputs width last")  # last: where each answer lies, None where packed
FIGURES = []


def name_of(config):
    return f"{config.dtype}_{config.how}_b{config.b}"


def fact(name, value):
    print(f"{name}: {value}", flush=True)


def row(name, *cells):
    print((f"  {name:<24}" + "".join(f"  {cell:>12}" for cell in cells)).rstrip(), flush=True)


def figure(name, value, unit):
    """Printed at the end, as our benchmarks do (tests/bench/report.h). Rows come at once: a run may be cut off."""
    FIGURES.append(f"figure {name} = {value:.6g} {unit}")


def europarl(path):
    """-> lengths, and in words where they are from; the rule of Lengths::Europarl()."""
    folder = os.environ.get("CELLBATCH_DATA") or "../shared/data"
    named = path or os.path.join(folder, "europarl_like_lengths.txt")
    if path or os.path.exists(named):
        with open(named, encoding="utf-8") as file:
            english = [int(line.split()[1]) for line in file if line.strip()]
        values = [min(length, MOST_LENGTH) for length in english if length > 0]
        if values:
            return np.array(values), f"{os.path.basename(named)}, second column"
    drawn = np.random.default_rng(1).lognormal(math.log(20.0), 0.65, 4000)
    return np.clip(drawn.astype(np.int64), 1, MOST_LENGTH), "synthetic, after Europarl's statistics"


def drawn_lengths(lengths, count, rng):
    """All of them in a new order, again and again: any long stretch has the same mix."""
    rounds = [rng.permutation(lengths) for _ in range(math.ceil(count / len(lengths)))]
    return np.concatenate(rounds)[:count]


def queues_of(lengths, how):
    """-> indices of requests, in order of arrival, for each bucket; one queue where there are no buckets."""
    if not how.startswith("bucket"):
        return [np.arange(len(lengths))]
    buckets = (lengths - 1) // BUCKET_WIDTH
    return [np.flatnonzero(buckets == bucket) for bucket in np.unique(buckets)]


def saturated_batches(lengths, how, b, rng):
    """-> lengths of the requests of each batch; the backlog is so deep that few batches of buckets aren't full."""
    bucketed = how.startswith("bucket")
    backlog = drawn_lengths(lengths, (4 if bucketed else 1) * max(len(lengths), 8 * b), rng)
    batches = [backlog[queue[at:at + b]] for queue in queues_of(backlog, how) for at in range(0, len(queue), b)]
    if not bucketed:
        batches = [batch for batch in batches if len(batch) == b]  # it goes on for ever: its end says nothing
    # Buckets take turns, as they would with a backlog that goes on.
    return [batches[i] for i in rng.permutation(len(batches))]


class Lstm:
    """torch.nn.LSTM of one type of numbers, with a pool of inputs that every batch is a piece of."""

    def __init__(self, dtype, hidden, most_b, device):
        kind = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(dtype, torch.float32)
        self.hidden, self.device = hidden, device
        self.wait = torch.cuda.synchronize if device == "cuda" else lambda: None
        self.module = torch.nn.LSTM(hidden, hidden, device=device, dtype=kind).eval()
        self.pool = torch.randn(MOST_LENGTH * most_b * hidden, device=device, dtype=kind)
        self.zeros = torch.zeros(most_b * hidden, device=device, dtype=kind)
        self.columns = torch.arange(most_b, device=device)

    def rows(self, *shape):
        # Of a flat pool: a slice along two dimensions isn't contiguous, and PyTorch would copy it every time.
        return self.pool[:math.prod(shape) * self.hidden].view(*shape, self.hidden)

    def batch(self, lengths, how):
        if how.endswith("packed"):
            # How many rows have a step 1, 2, ..: what pack_padded_sequence makes of sorted rows, without its copy.
            sizes = np.cumsum(np.bincount(lengths)[::-1])[::-1][1:]
            inputs = PackedSequence(self.rows(int(sizes.sum())), torch.from_numpy(sizes.copy()))
            return Batch(inputs, len(lengths), None)
        width = -(-len(lengths) // 8) * 8
        last = torch.from_numpy(lengths - 1).to(self.device, non_blocking=True)
        return Batch(self.rows(int(lengths.max()), width), width, last)

    def run(self, batch):
        """-> the last hidden state of each request, when the GPU has got there."""
        state = self.zeros[:batch.width * self.hidden].view(1, batch.width, self.hidden)
        outputs, (hidden, _) = self.module(batch.inputs, (state, state))
        return hidden[0] if batch.last is None else outputs[batch.last, self.columns[:len(batch.last)]]


def timed(lstm, work, times):
    lstm.wait()
    since = time.perf_counter()
    for _ in range(times):
        work()
    lstm.wait()
    return time.perf_counter() - since


def seconds_each(lstm, work, seconds):
    """-> what `work` takes when done back to back for about so long, after it has been done once."""
    timed(lstm, work, 1)
    times = math.ceil(seconds / timed(lstm, work, 1))
    return timed(lstm, work, times) / times


def saturation(lstm, config, lengths, seconds):
    """-> requests/s, mean batch, rows computed for each row asked for."""
    chosen = saturated_batches(lengths, config.how, config.b, np.random.default_rng(1))
    batches = [lstm.batch(requests, config.how) for requests in chosen]

    def run_all():
        for batch in batches:
            lstm.run(batch)

    each = seconds_each(lstm, run_all, seconds)
    requests = sum(len(one) for one in chosen)
    asked = sum(int(one.sum()) for one in chosen)
    computed = sum(len(one.inputs.data) if one.last is None else len(one.inputs) * one.width for one in batches)
    return requests / each, requests / len(chosen), computed / asked


def wait_until(moment):
    """Sleeps only where a sleep that ends late does no harm, and spins through the rest."""
    left = moment - time.perf_counter()
    if left > 0.001:
        time.sleep(left - 0.0005)
    while time.perf_counter() < moment:
        pass


def open_loop(lstm, config, lengths, rate, seconds, seed):
    """Graph batching: takes what has arrived, runs it to its end, looks again. Arrivals are fixed before it begins and
    latencies count from them, however late the loop comes to look: nothing is omitted while a batch runs.

    -> p50 and p99 in us, how many were not answered in twice the time, mean batch.
    """
    rng = np.random.default_rng(seed)
    count = max(1, int(rate * seconds))
    arrivals = np.cumsum(rng.exponential(1.0 / rate, count))
    asked = drawn_lengths(lengths, count, rng)
    queues = queues_of(asked, config.how)
    times = [np.append(arrivals[queue], np.inf) for queue in queues]
    heads = [0] * len(queues)
    oldest = np.array([queue_times[0] for queue_times in times])
    latency = np.full(count, np.nan)
    answered, batches, limit = 0, 0, 2 * arrivals[-1]
    now, began = 0.0, time.perf_counter()
    while answered < count and now < limit:
        i = int(oldest.argmin())  # the bucket whose oldest request is oldest
        if oldest[i] > now:
            wait_until(began + oldest[i])
            now = max(time.perf_counter() - began, oldest[i])  # rounding must not hide who was waited for
        arrived = int(np.searchsorted(times[i], now, side="right"))
        taken = queues[i][heads[i]:min(arrived, heads[i] + config.b)]
        lstm.run(lstm.batch(asked[taken], config.how))
        lstm.wait()
        now = time.perf_counter() - began
        latency[taken] = now - arrivals[taken]
        heads[i] += len(taken)
        oldest[i] = times[i][heads[i]]
        answered, batches = answered + len(taken), batches + 1
    # Who was not answered waited at least until now. Leaving them out would make an overload look good.
    latency = np.where(np.isnan(latency), np.maximum(now - arrivals, 0), latency)
    p50, p99 = np.percentile(latency, (50, 99)) * 1e6
    return p50, p99, count - answered, answered / batches


class Bench:
    def __init__(self, options, lengths):
        self.options, self.lengths = options, lengths
        self.lstms, self.rates = {}, {}  # of each dtype; Config -> requests/s, of what was measured

    def lstm(self, dtype):
        # PyTorch's newer switch of RNNs alone makes whatever asks about cuDNN as a whole fail.
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        if dtype not in self.lstms:
            most_b = max(self.options.batches + self.options.step_batches)
            self.lstms[dtype] = Lstm(dtype, self.options.hidden, most_b, self.options.device)
        return self.lstms[dtype]

    def each(self, items, name, cost, until, measure):
        """measure(item) for one after the other while `cost` seconds are left before `until`."""
        for at, item in enumerate(items):
            if time.monotonic() - STARTED + cost > until:
                fact("left out, no time left", ", ".join(name(left) for left in items[at:]))
                return
            try:
                measure(item)
            except RuntimeError as failure:  # one that cuDNN or the memory cannot do is no reason to lose the others
                row(name(item), "failed: " + (str(failure).splitlines() or ["?"])[0][:100])

    def configs(self, dtypes):
        configs = [Config(dtype, how, b) for b in self.options.batches for how in HOWS for dtype in dtypes]
        return [config for config in configs if any(word in name_of(config) for word in self.options.only.split(","))]

    def saturations(self, configs, until):
        def measure(config):
            rate, mean_batch, padding = saturation(self.lstm(config.dtype), config, self.lengths, self.options.seconds)
            self.rates[config] = rate
            row(name_of(config), f"{rate:.1f}", f"{mean_batch:.1f}", f"{padding:.3f}")
            figure(f"cudnn.saturation.{name_of(config)}.requests_per_s", rate, "1/s")

        fact("saturation", "requests/s, mean batch, rows computed for each asked")
        self.each(configs, name_of, 2 * self.options.seconds, until, measure)

    def best(self, wanted):
        """-> the Config of most requests/s of those that `wanted` wants; None where none was measured."""
        return max((c for c in self.rates if wanted(c)), key=self.rates.get, default=None)

    def best_rates(self):
        for label, dtypes in (("best", HALF), *((f"best_{dtype}", (dtype,)) for dtype in HALF + SINGLE)):
            config = self.best(lambda c, dtypes=dtypes: c.dtype in dtypes)
            if config is not None:
                fact(label, f"{name_of(config)}, {self.rates[config]:.1f} requests/s")
                figure(f"cudnn.{label}.requests_per_s", self.rates[config], "1/s")

    def steps(self):
        def measure(item):
            dtype, b = item
            lstm = self.lstm(dtype)
            last = torch.full((b,), STEPS - 1, device=self.options.device)
            batch = Batch(lstm.rows(STEPS, b), b, last)  # not widened: here b is what is asked about
            step_us = seconds_each(lstm, lambda: lstm.run(batch), self.options.seconds / 2) / STEPS * 1e6
            row(f"{dtype}_b{b}", f"{step_us:.2f}")
            figure(f"cudnn.step.{dtype}_b{b}.us", step_us, "us")

        fact("steps", f"us; of runs of {STEPS}")
        items = [(dtype, b) for dtype in HALF for b in self.options.step_batches]
        self.each(items, lambda item: "%s_b%d" % item, self.options.seconds, self.options.budget, measure)

    def latency_configs(self):
        """For each HOW the best at saturation; then the best of small batches, which wait less for one another."""
        found = [self.best(lambda c, how=how, most=most: c.dtype in HALF and c.how == how and c.b <= most)
                 for most in (max(BATCHES), 128) for how in HOWS]
        return list(dict.fromkeys(config for config in found if config is not None))

    def latencies(self):
        best = self.best(lambda c: c.dtype in HALF)
        if best is None:
            fact("latency", "not measured, as no fp16 or bf16 was measured at saturation")
            return
        rate = self.options.rate or self.options.load * self.rates[best]
        seconds = 5 * self.options.seconds
        waited = {}

        def measure(config):
            lstm = self.lstm(config.dtype)
            # The largest batch first, so that PyTorch need not ask for memory later; then other shapes.
            lstm.run(lstm.batch(np.full(config.b, int(self.lengths.max())), config.how))
            open_loop(lstm, config, self.lengths, rate, seconds / 10, 2)
            p50_us, p99_us, unanswered, mean_batch = open_loop(lstm, config, self.lengths, rate, seconds, 3)
            waited[config] = p99_us
            late = f"{unanswered} unanswered" if unanswered else ""
            row(name_of(config), f"{p50_us:.0f}", f"{p99_us:.0f}", f"{mean_batch:.1f}", late)
            figure(f"cudnn.latency.{name_of(config)}.p50_us", p50_us, "us")
            figure(f"cudnn.latency.{name_of(config)}.p99_us", p99_us, "us")

        fact("latency", f"p50 us, p99 us, mean batch; {rate:.1f} requests/s, {rate / self.rates[best]:.3f} of the best")
        figure("cudnn.latency.rate", rate, "1/s")
        self.each(self.latency_configs(), name_of, 1.3 * seconds, self.options.budget, measure)
        if waited:
            least = min(waited, key=waited.get)
            fact("best latency", f"{name_of(least)}, p99 {waited[least]:.0f} us at {rate:.1f} requests/s")
            figure("cudnn.best_latency.p99_us", waited[least], "us")

    def run(self):
        self.saturations(self.configs(HALF), SATURATION_SHARE * self.options.budget)
        self.latencies()
        self.steps()
        self.saturations(self.configs(SINGLE), self.options.budget)
        self.best_rates()


def driver_version():
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def missing_here(device):
    if MISSING or device == "cpu":
        return MISSING and f"no PyTorch or no numpy: {MISSING}"
    if not torch.cuda.is_available():
        return "no GPU that PyTorch can use"
    return "" if torch.backends.cudnn.is_available() else "PyTorch has no cuDNN"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--budget", type=float, default=60, metavar="S", help="seconds for all of it (default 60)")
    add("--rate", type=float, metavar="R", help="of arrivals, requests/s, for the latencies")
    add("--load", type=float, default=0.3, help="without --rate: of the best at saturation (default 0.3)")
    add("--seconds", type=float, help="for each configuration (default 0.4); latencies take 5 times that")
    add("--lengths", metavar="FILE", help="its second column; default: CELLBATCH_DATA/europarl_like_lengths.txt")
    add("--only", default="", metavar="A,B", help="whose names contain one of these, as fp16_padded,_b512")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: without cuDNN, to try the script")
    add("--quick", action="store_true", help="tiny sizes: is the script itself right?")
    options = parser.parse_args()
    options.seconds = options.seconds or (0.02 if options.quick else 0.4)
    options.batches = [16, 8] if options.quick else list(BATCHES)
    options.step_batches = [1, 8] if options.quick else [1, 8, 64, 512]
    options.hidden = 16 if options.quick else 1024
    if min(options.budget, options.load, options.seconds, options.rate or 1) <= 0:
        parser.error("--budget, --load, --seconds and --rate are above 0")
    return options


def main():
    options = parse()
    missing = missing_here(options.device)
    if missing:
        print("cudnn_peer: " + missing, file=sys.stderr)
        return 3
    try:
        lengths, source = europarl(options.lengths)
    except (OSError, ValueError, IndexError) as failure:
        print(f"cudnn_peer: --lengths: {failure}", file=sys.stderr)
        return 2
    if options.quick:
        lengths = np.minimum(lengths[:200], 12)
    fact("gpu", torch.cuda.get_device_name(0) if options.device == "cuda" else "none, so times mean nothing")
    fact("torch", f"{torch.__version__}, cuDNN {torch.backends.cudnn.version()}, driver {driver_version()}")
    fact("lengths", f"{source}, {len(lengths)}, mean {lengths.mean():.1f}")
    gc.disable()  # its pauses would be in the peer's p99; nothing here goes in circles
    torch.set_num_threads(1)  # matters on the CPU alone, where tiny products only wait for threads
    try:
        with torch.no_grad():
            Bench(options, lengths).run()
    finally:
        print("\n" + "\n".join(FIGURES), flush=True)
    fact("took", f"{time.monotonic() - STARTED:.1f} s of {options.budget:g}")
    return 0 if FIGURES else 1


if __name__ == "__main__":
    sys.exit(main())
