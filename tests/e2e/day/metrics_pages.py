"""Scrapes a server's /metrics as Prometheus would, until its standard input ends, and holds each page to the rules.

    metrics_pages.py URL

Prints what is wrong, and last how many pages there were; exits 1 if anything was. The parser is Prometheus' own for Python. Beside
what that refuses: a family or a series stands on a page once, samples are named as their family's type wants it, a histogram's
buckets are cumulative and end with its count, and what counts neither falls nor goes away.
"""

import math
import sys
import threading
import urllib.request

from prometheus_client import parser

SUFFIXES = {"counter": {"_total"}, "gauge": {""}, "histogram": {"_bucket", "_sum", "_count"}}


def histograms_of(samples):
    """-> {labels without le: ([(le, value), ..] in the page's order, count)}"""
    found = {}
    for sample in samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        buckets, counts = found.setdefault(labels, ([], []))
        if sample.name.endswith("_bucket"):
            buckets.append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            counts.append(sample.value)
    return found


def problems_of_histogram(name, samples):
    for labels, (buckets, counts) in histograms_of(samples).items():
        bounds, values = [bound for bound, _ in buckets], [value for _, value in buckets]
        if bounds != sorted(set(bounds)) or not bounds or bounds[-1] != math.inf:
            yield "%s%s: its bounds are %s" % (name, labels, bounds)
        elif values != sorted(values):
            yield "%s%s: its buckets fall: %s" % (name, labels, values)
        elif counts != values[-1:]:
            yield "%s%s: counts %s, its buckets %s" % (name, labels, counts, values[-1])


def read_page(text):
    """-> (what is wrong, {series: value} of what counts)"""
    wrong, counting, seen, families = [], {}, set(), set()
    for family in parser.text_string_to_metric_families(text):
        # The parser leaves a counter's last word out of its name, as OpenMetrics does; in this format it is a part of it.
        name = family.name + ("_total" if family.type == "counter" else "")
        if name in families:
            wrong.append("%s stands there twice" % name)
        families.add(name)
        if not family.documentation or family.type not in SUFFIXES:
            wrong.append("%s: type %s, help '%s'" % (family.name, family.type, family.documentation))
            continue
        for sample in family.samples:
            series = (sample.name, tuple(sorted(sample.labels.items())))
            if series in seen:
                wrong.append("%s%s stands there twice" % series)
            seen.add(series)
            if sample.name[len(family.name):] not in SUFFIXES[family.type]:
                wrong.append("%s is of the %s %s" % (sample.name, family.type, family.name))
            if family.type != "gauge":
                counting[series] = sample.value
        if family.type == "histogram":
            wrong += problems_of_histogram(family.name, family.samples)
    if not families:
        wrong.append("a page of nothing")
    return wrong, counting


def problems_between(before, now):
    for series, value in before.items():
        if series not in now:
            yield "%s%s is gone" % series
        elif not now[series] >= value:
            yield "%s%s fell from %s to %s" % (*series, value, now[series])


def main():
    ending = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ending.set()), daemon=True).start()
    pages, wrong, before = 0, [], {}
    while not wrong:
        last = ending.is_set()  # then one more, of what all came to
        with urllib.request.urlopen(sys.argv[1], timeout=60) as reply:
            found, now = read_page(reply.read().decode())
        wrong = found + list(problems_between(before, now))
        before = now
        pages += 1
        if last:
            break
        ending.wait(1)
    for problem in wrong[:20]:
        print(problem)
    print("%d pages, %d series that count, %d problems" % (pages, len(before), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
