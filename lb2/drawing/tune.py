"""How many clients meet the TTFT target, by the p99 and by the mean?

The numbers are tune.py's: N clients, each with one request in flight, max_num_seqs = N. The order
of the list decides which requests share the first burst, so the answers of 20 random orders are a
band. In a list of n requests the first burst is less than 1 % of all while N <= n / 100: until then
the p99 does not see it.
"""

import tune
from common import progress
from files.costs import Costs
from drawing.svg import LEFT, LINE, MARGIN, RIGHT, axes, draw, group, line, marks, path, picture, text, units
from drawing.labels import across, drop, heads, names
from drawing.scales import Panel, Scale, decades, from_zero, milliseconds

TARGET_MS, UP_TO = 200, 256  # tune.py's
LONG = 1000  # of longer lists the order is not varied here: it takes minutes, and the first burst weighs little


def tune_points(requests, costs, up_to, rows=None):
    """A tune.Point for each concurrency: played, or as the rows of tune.csv have them."""
    if rows:
        return [tune.Point(int(row["concurrency"]), float(row["mean_ttft_ms"]), float(row["p99_ttft_ms"]),
                           float(row["throughput_tps"])) for row in rows]
    most = min(up_to, len(requests.output_tokens))
    return list(progress((tune.measure(requests, clients, costs) for clients in range(1, most + 1)), most))


def tune_data(requests, costs=Costs(), target_ms=TARGET_MS, up_to=UP_TO, rows=None):
    """The target, a tune.Point a concurrency, the answers of 20 random orders or None, how many
    requests.
    """
    n = len(requests.output_tokens)
    points = tune_points(requests, costs, up_to, rows)
    answers = None
    if 1 < n <= LONG:
        orders = (tune.answer_in_random_order(requests, seed, min(up_to, n), target_ms, costs)
                  for seed in range(tune.ORDERS))
        answers = list(progress(orders, tune.ORDERS))
    return target_ms, points, answers, n


def choices(points, target_ms):
    """{"p99" or "mean": the tune.Point that the target allows by it, or None}."""
    measures = {"p99": tune.p99, "mean": tune.mean}
    return {name: tune.largest_within(points, target_ms, measure) for name, measure in measures.items()}


def verdict(name, best, points, target_ms):
    """The answer by the p99 or by the mean, in words."""
    if best is None:
        alone = points[0].p99_ttft_ms if name == "p99" else points[0].mean_ttft_ms
        return f"{name}: none; 1 client has {milliseconds(alone)}"
    clients = f"{best.concurrency} client{'s' if best.concurrency > 1 else ''}"
    more = " or more" if best is points[-1] else ""
    missed = f", p99 {milliseconds(best.p99_ttft_ms)}" if best.p99_ttft_ms > target_ms else ""
    return f"{name}: {clients}{more}, {best.throughput_tps:,.0f} tokens/s{missed}"


def orders_words(answers):
    low, high = min(answers), max(answers)
    return f"p99: {low} to {high} in {len(answers)} random orders" if low < high else f"p99: {low} in any order tried"


def draw_tune(target_ms, points, answers, n):
    """TTFT and throughput against concurrency. The arguments are what tune_data returns."""
    x = Scale(0, max(points[-1].concurrency, 5), LEFT, RIGHT - 74)  # no fractions of a client
    chosen = choices(points, target_ms)
    words = [(verdict(name, chosen[name], points, target_ms), kind)
             for name, kind in (("p99", "bad"), ("mean", "good"))]
    if answers and max(answers):
        words.insert(1, (orders_words(answers), "bad"))
    unseen = n // 100 if 2 <= n // 100 < x.high else 0
    if unseen:
        words.append((f"up to {unseen} clients the p99 misses the first burst", "head"))
    lines = [text(MARGIN, 68 + LINE + row * LINE, *line) for row, line in enumerate(words)]
    top = 148 + len(words) * LINE
    ttft = Panel("ttft", x, decades([target_ms, *(ms for point in points for ms in point[1:3])], top + 210, top))
    tps = Panel("throughput", x, from_zero([point.throughput_tps for point in points], top + 376, top + 262))
    above = [axes(ttft, "", "TTFT, ms, log scale", rise=34), group("ink", "target", across(ttft, target_ms))]
    below = [axes(tps, "clients", "tokens per second")]
    if answers and max(answers):
        left, right = max(x.at(min(answers) - 0.5), x.start), min(x.at(max(answers) + 0.5), x.end)
        orders = path("band", f"M{units(left)},{units(top)}H{units(right)}V{units(top + 210)}H{units(left)}z")
        above.insert(0, group("bad", "orders", orders))
    if unseen:
        above.append(group("ink", "unseen", drop(ttft, unseen)))
    below.append(group("ink", "throughput", line(tps, [(point.concurrency, point.throughput_tps) for point in points])))
    labels, numbers = [(target_ms, "target", "")], []
    for name, kind, shape, measure in (("p99", "bad", "square", tune.p99), ("mean", "good", "circle", tune.mean)):
        above.append(group(kind, name, line(ttft, [(point.concurrency, measure(point)) for point in points])))
        labels.append((measure(points[-1]), name, kind))
        best = chosen[name]
        if best:
            clients, tokens = best.concurrency, best.throughput_tps
            place = [(clients, measure(best))]
            above.append(group(kind, f"{name} choice", drop(ttft, clients), marks(ttft, shape, place)))
            below.append(group(kind, f"{name} choice", drop(tps, clients), marks(tps, shape, [(clients, tokens)])))
            numbers.append((clients, str(clients), kind))
    if chosen["p99"] and chosen["p99"] is chosen["mean"]:
        numbers.pop()
    said = "; ".join(line[0] for line in words)
    return picture(
        "How many clients meet the TTFT target?",
        f"Clients that meet {target_ms:,.12g} ms. {said[0].upper()}{said[1:]}.",
        top + 440,
        text(MARGIN, 68, f"One request in flight each; target {target_ms:,.12g} ms"),
        *lines,
        draw(ttft, *above, *heads(ttft, numbers), *names(ttft, labels)),
        draw(tps, *below),
    )
