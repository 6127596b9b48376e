"""How many clients meet the TTFT target, by the p99 and by the mean?

The numbers are tune.py's: N clients, each with one request in flight, max_num_seqs = N. The order
of the list decides which requests share the first burst, so the answers of 20 random orders are a
band. In a list of n requests the first burst is less than 1 % of all while N <= n / 100: until then
the p99 does not see it.
"""

from drawing.svg import LEFT, RIGHT, axes, draw, group, line, marks, path, picture, units
from drawing.labels import across, drop, heads, names
from drawing.scales import Panel, Scale, decades, from_zero, milliseconds

TOP, BOTTOM = 72, 282  # of the TTFT; the throughput is below
SERIES = (("p99", "good", "square", 2), ("mean", "bad", "circle", 1))  # name, colour, mark, column of a Point


def title_of(target_ms, points, chosen):
    """The finding: what the p99 allows, and what the mean would promise."""
    target, best = f"a p99 TTFT of {target_ms:,.12g} ms", chosen["p99"]
    if best is None:
        return f"One client alone misses {target}: {milliseconds(points[0].p99_ttft_ms)}"
    clients = f"{best.concurrency} client{'' if best.concurrency == 1 else 's'}"
    if best is points[-1]:
        return f"No edge up to {clients}, the most tried, at {target}"
    meets = "meets" if best.concurrency == 1 else "meet"
    mean = chosen["mean"]
    more = f"; the mean promises {mean.concurrency}" if mean and mean is not best else ""
    return f"{clients} {meets} {target}{more}"


def draw_tune(target_ms, points, chosen, answers, n):
    """points: step 8's; chosen: {"p99" or "mean": the one that the target allows by it, or None};

    answers: those of random orders of the list, or None; n: how many requests.
    """
    x = Scale(0, max(points[-1].concurrency, 5), LEFT, RIGHT - 96)  # no fractions of a client
    unseen = n // 100 if 2 <= n // 100 < x.high else 0
    ttft = Panel("ttft", x, decades([target_ms, *(ms for point in points for ms in point[1:3])], BOTTOM, TOP))
    tps = Panel("throughput", x, from_zero([point.throughput_tps for point in points], BOTTOM + 172, BOTTOM + 62))
    above = [axes(ttft, "", "TTFT, ms, log scale", rise=40), group("ink", "target", across(ttft, target_ms))]
    below = [axes(tps, "clients", "tokens per second"),
             group("ink", "throughput", line(tps, [(point.concurrency, point.throughput_tps) for point in points]))]
    notes = ["Each client has one request under way"]
    if answers and max(answers):
        low, high = min(answers), max(answers)
        left, right = max(x.at(low - 0.5), x.start), min(x.at(high + 0.5), x.end)
        above.insert(0, group("good", "orders", path(
            "band", f"M{units(left)},{TOP}H{units(right)}V{BOTTOM}H{units(left)}z")))
        notes.append(f"Band: {len(answers)} random orders of the list give {low} to {high}" if low < high else
                     f"{len(answers)} random orders of the list all give {low}")
    if unseen:
        above.append(group("ink", "unseen", drop(ttft, unseen)))
        notes.append(f"Up to {unseen} clients the p99 does not see the first burst")
    labels, numbers, said = [(target_ms, milliseconds(target_ms), "")], [], []
    for name, kind, shape, column in SERIES:
        above.append(group(kind, name, line(ttft, [(point.concurrency, point[column]) for point in points])))
        labels.append((points[-1][column], name, kind))
        best = chosen[name]
        if best and not (name == "mean" and best is chosen["p99"]):
            clients, tokens = best.concurrency, best.throughput_tps
            above.append(group(kind, f"{name} choice", drop(ttft, clients),
                               marks(ttft, shape, [(clients, best[column])])))
            below.append(group(kind, f"{name} choice", drop(tps, clients), marks(tps, shape, [(clients, tokens)])))
            numbers.append((clients, str(clients), kind))
            said.append(f"By the {name} {clients}, with {tokens:,.0f} tokens/s and a p99 of "
                        f"{milliseconds(best.p99_ttft_ms)}.")
    return picture(
        title_of(target_ms, points, chosen), notes, " ".join(said), BOTTOM + 236,
        draw(ttft, *above, *heads(ttft, numbers), *names(ttft, labels)), draw(tps, *below),
    )
