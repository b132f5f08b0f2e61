"""Reports: what a finished run means, and how it is shown and kept. Simulates nothing, prints nothing.

A `RunView` is what every table, plot and file is made from, so that a run in memory and a run folder
read back look the same. Modules are imported by name (pandas and matplotlib come with them, so this
package itself imports neither):

    sim.report.metrics   summarize(record, *, slo, provenance, slo_classes=None) -> dict
                         The contents of summary.json. `slo` is {ttft_s, tbt_s, tpot_s, e2e_s} in
                         seconds, missing or None where there is no such objective; `provenance` is
                         stored as given, the trace's name, hash and drops added.
                         peak_concurrency(arrival_ns, finish_ns) -> int
    sim.report.percentiles   weighted_percentile(values, counts, percent) -> float | None
    sim.report.frames    requests_frame(record), iterations_frame(record), tbt_frame(record) -> DataFrame
    sim.report.view      RunView(name, config, summary, requests, iterations, tbt)     frozen
                         view_of(record, *, name, config, summary) -> RunView
                         distinct_names(views) -> list[RunView]   no two of one name in a legend
    sim.report.folder    check_target(directory) -> None          UserError before a long run, not after
                         write_run(view, directory, *, file_format="csv") -> Path    no plots
                         load_run(directory, *, name=None) -> RunView
    sim.report.tables    run_table(view) -> rich renderable       one run
    sim.report.comparison_tables   comparison_of(frame, notices=()), verdict_lines(frame, baseline)
    sim.report.statistics   means(frame), differences(frame, metrics=None), interval(values), paired(a, b)
    sim.report.bounds    bounds_of(trace, cost, limits) -> Bounds     NoBounds where there are none
    sim.report.plots     draw_all(views, directory) -> list[Path]      PNG files
                         distributions(views), timeline(views, window_s=None), load(views),
                         throughput(views) -> matplotlib Figure   (shows itself in a notebook)
    sim.report.explain   Explainer(record)    every ns of a latency by cause, from a record with events
    sim.report.perfetto  trace_events(record, ...), write_trace(events, path, about)
    sim.report.html      page(views) -> str, write_page(views, path) -> Path    one HTML page

Plots of traces and of cost models are in trace_plots.py and cost_plots.py. matplotlib is
imported when a figure is made, not when sim.report.plots is imported.
"""
