"use strict";
(() => {
  const { tables, facts } = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const make = (tag, text = "", settings = {}) => Object.assign(document.createElement(tag), { textContent: text }, settings);
  const column = (table, name) => tables[table].rows.map((row) => row[tables[table].columns.indexOf(name)]);
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const fixed = (value, digits = 3) => value === null ? "–" : (Number(value.toFixed(digits)) + 0).toFixed(digits);
  const count = (value) => value.toLocaleString("en");
  const VIRIDIS = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"];
  const PALETTE = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#dd8452", "#8c8c8c", "#937860", "#64b5cd", "#b07aa1", "#55a868"];
  const colour = (value) => { // of a value from 0 to 1
    const place = Math.min(1, Math.max(0, value)) * (VIRIDIS.length - 1), low = Math.min(Math.floor(place), VIRIDIS.length - 2);
    const part = (at, i) => parseInt(VIRIDIS[at].slice(1 + 2 * i, 3 + 2 * i), 16);
    return `rgb(${[0, 1, 2].map((i) => Math.round(part(low, i) + (part(low + 1, i) - part(low, i)) * (place - low)))})`;
  };

  // -- tables: sorted by their heads, filtered, saved ---------------------------------------------------------
  const hidden = (name) => name === "chosen";
  const writers = (table) => table.columns.map((_, j) => {
    const numbers = table.rows.map((row) => row[j]).filter((v) => typeof v === "number");
    const broken = numbers.some((v) => !Number.isInteger(v));
    return (v) => v === null ? "–" : typeof v === "number" && j ? (broken ? fixed(v) : count(v)) : String(v);
  });
  const tests = (text, columns) => text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const [, name, sign, wanted] = word.match(/^([^<>=]+)(<=|>=|<|>|=)(.+)$/) ?? [];
    const j = name ? columns.findIndex((one) => one.toLowerCase().startsWith(name.toLowerCase())) : -1;
    if (j < 0) return (row) => row.some((v) => String(v).toLowerCase().includes(word.toLowerCase()));
    const compare = { "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "=": (a, b) => a === b }[sign];
    return (row) => row[j] !== null && (typeof row[j] === "number" ? compare(row[j], Number(wanted)) : compare(String(row[j]), wanted));
  });
  for (const box of all(".table")) {
    const { columns, rows } = tables[box.dataset.table], write = writers({ columns, rows });
    let limit = Number(box.dataset.rows), sorted = rows, filter = [];
    const body = make("tbody"), status = make("output", "", { className: "note" });
    const more = make("button", "Show more", { type: "button", className: "save more" });
    const fill = () => {
      const found = sorted.filter((row) => filter.every((test) => test(row)));
      body.replaceChildren(...found.slice(0, limit).map((row) => {
        const line = make("tr", "", { className: row[columns.indexOf("chosen")] === "yes" ? "chosen" : "" });
        line.append(...row.map((v, j) => make("td", write[j](v))).filter((_, j) => !hidden(columns[j])));
        if (box.dataset.shaded) row.forEach((v, j) => { if (j) line.cells[j].style.setProperty("--share", `${100 * v / Math.max(1, ...row.slice(1))}%`); });
        return line;
      }));
      more.hidden = found.length <= limit;
      status.textContent = `${count(Math.min(limit, found.length))} of ${count(found.length)} rows`;
    };
    const heads = columns.map((name, j) => {
      const head = make("th", "", { scope: "col" }), button = make("button", name, { type: "button" });
      button.addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") === "ascending", way = falling ? -1 : 1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        sorted = [...rows].sort(({ [j]: a }, { [j]: b }) => a === null || b === null ? (a === null) - (b === null)
          : way * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
        fill();
      });
      head.append(button);
      return head;
    });
    more.addEventListener("click", () => { limit *= 4; fill(); });
    if (rows.length > limit) {
      const label = make("label", "Filter "), input = make("input", "", { type: "search" });
      input.placeholder = columns.includes("confidence") ? "text, cluster=2, confidence<0.5" : `text, or ${columns[1].split(" ")[0]}=1`;
      input.addEventListener("input", () => { filter = tests(input.value, columns); fill(); });
      label.append(input);
      box.append(label, status, more);
    }
    const table = make("table"), head = make("thead"), top = make("tr"), scroll = make("div", "", { className: "scroll", tabIndex: 0 });
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Table of " + box.dataset.table);
    top.append(...heads.filter((_, j) => !hidden(columns[j])));
    head.append(top);
    table.append(head, body);
    scroll.append(table);
    box.prepend(scroll);
    fill();
  }
  const cell = (value) => { // an apostrophe keeps spreadsheets from running text that looks like a formula
    const text = value === null ? "" : typeof value === "string" && /^'*[=+\-@\t\r]/.test(value) ? "'" + value : String(value);
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  for (const button of all("[data-save]")) {
    const name = button.dataset.save;
    button.setAttribute("aria-label", `Download the numbers of ${name} as CSV`);
    button.addEventListener("click", () => {
      const { columns, rows } = tables[name];
      const text = [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
      const link = make("a", "", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name + ".csv" });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
      button.dataset.saved = String(text.length);
    });
  }

  // -- pictures: name -> option of ECharts, and the text of a mark by its index -------------------------------
  const axis = (name, settings = {}) => ({
    name, nameLocation: "middle", nameGap: 28, nameTextStyle: { color: css("--muted") }, axisLabel: { color: css("--muted") },
    axisLine: { lineStyle: { color: css("--muted") } }, splitLine: { lineStyle: { color: css("--grid") } }, ...settings,
  });
  const xy = (x, y, series, tip, more = {}) => ({
    tip, option: { grid: { left: 62, right: 24, top: more.legend ? 40 : 18, bottom: 48 }, xAxis: x, yAxis: { nameGap: 44, ...y }, series, ...more },
  });
  const curves = (table, names, marks) => {
    const ks = column(table, "ks"), values = names.map((name) => column(table, name).map(unit(column(table, name))));
    const style = (bold) => ({ width: bold ? 3.5 : 1.6, color: bold ? css("--ink") : undefined });
    return xy(axis("number of clusters k", { type: "value", min: ks[0], max: ks.at(-1), minInterval: 1 }), axis("", { type: "value" }),
      names.map((name, j) => ({
        type: "line", name, data: ks.map((k, i) => [k, values[j][i]]), symbolSize: 6, lineStyle: style(name === "score"),
        itemStyle: { color: name === "score" ? css("--ink") : PALETTE[j] },
        markLine: j ? undefined : { symbol: "none", silent: true, label: { color: css("--muted"), formatter: "{c}" },
          data: marks.map(([k, type]) => ({ xAxis: k, lineStyle: { type, color: css("--warn") } })) },
      })),
      (i, j) => `k = ${ks[i]}: ${names[j]} ${fixed(column(table, names[j])[i])}`,
      { legend: { top: 0, textStyle: { color: css("--muted") } } });
  };
  const unit = (values) => {
    const known = values.filter((v) => v !== null), low = Math.min(...known), span = Math.max(...known) - low || 1;
    return (v) => v === null ? null : (v - low) / span;
  };
  const bars = (names, values, colours, x, tip) => xy(axis(x, { type: "category", data: names }), axis("items", { type: "value" }),
    [{ type: "bar", barCategoryGap: "12%", data: values.map((value, i) => ({ value, itemStyle: { color: colours(i) } })) }], tip);
  const confidence = () => {
    const from = column("confidence", "from"), to = column("confidence", "to"), items = column("confidence", "items");
    const total = items.reduce((a, b) => a + b, 0) || 1;
    return bars(from.map((v) => fixed(v, 2)), items, (i) => css(from[i] < facts.sure - 1e-9 ? "--warn" : "--accent"), "confidence",
      (i) => `${fixed(from[i], 2)} to ${fixed(to[i], 2)}: ${count(items[i])} items (${fixed(100 * items[i] / total, 1)} %)`);
  };
  const heat = (table, labels, x, y, numbers = new Map(), width) => {
    const rows = tables[table].rows.map((row) => row.slice(1)), n = rows.length, room = width - y.room - 62;
    const side = room > n ? n * Math.floor(room / n) : room; // whole pixels: no seams between cells
    const ink = (v) => v > 0.6 ? "#000" : "#fff";
    const data = rows.flatMap((row, i) => row.map((v, j) => i === j && numbers.has(i)
      ? { value: [j, n - 1 - i, v], label: { show: true, formatter: numbers.get(i), color: ink(v), fontWeight: "bold", fontSize: 15 } } : [j, n - 1 - i, v]));
    return {
      across: n, height: side + 10 + x.room, canvas: n > 60, tip: (i) => `${labels[Math.floor(i / n)]} × ${labels[i % n]}: ${fixed(rows[Math.floor(i / n)][i % n])}`,
      option: {
        grid: { left: y.room, top: 10, width: side, height: side },
        xAxis: axis("", { type: "category", data: labels, splitLine: { show: false }, axisTick: { show: false }, ...x }),
        yAxis: axis("", { type: "category", data: [...labels].reverse(), splitLine: { show: false }, axisTick: { show: false }, ...y }),
        visualMap: { min: 0, max: 1, dimension: 2, left: y.room + side + 10, top: 10, itemHeight: 150, text: ["1", "0"], textStyle: { color: css("--muted") }, inRange: { color: VIRIDIS } },
        series: [{ type: "heatmap", data, progressive: 0, emphasis: { itemStyle: { borderColor: "#fff", borderWidth: 1.5 } } }],
      },
    };
  };
  const coassociation = (width) => {
    const { clusters, sizes, names } = facts.blocks, middle = new Map(), n = clusters.length;
    let end = 0;
    const labels = clusters.map((c, i) => {
      end += sizes[i];
      return names ? `${names[i]} (cluster ${c})` : `cluster ${c}, ${sizes[i] > 1 ? `items ${count(end - sizes[i] + 1)} to` : "item"} ${count(end)} of the order`;
    });
    for (let first = 0, last; first < n; first = last) {
      for (last = first; last < n && clusters[last] === clusters[first];) last++;
      if (last - first >= 0.025 * n) middle.set(Math.floor((first + last - 1) / 2), String(clusters[first]));
    }
    const few = names && n <= 60, colouring = { color: css("--muted"), width: 90, overflow: "truncate" };
    const side = (at) => ({ // `at` turns a place on the axis into a row
      room: few ? 100 : 36, z: 5,
      axisLabel: { ...colouring, rotate: few && at(0) === 0 ? 60 : 0, interval: few ? 0 : (i) => middle.has(at(i)), formatter: (_, i) => few ? names[at(i)] : middle.get(at(i)) ?? "" },
      splitLine: { show: facts.k < 60, interval: (i) => i > 0 && clusters[at(i)] !== clusters[at(i - 1)], lineStyle: { color: "#fff", opacity: 0.6 } },
    });
    return heat("coassociation", labels, side((i) => i), side((i) => n - 1 - i), few ? new Map() : middle, width);
  };
  const flow = (table) => {
    const rows = tables[table].rows, places = [...new Set(rows.flatMap((row) => [row[0], row[2]]))], total = {};
    const node = (place, cluster) => places.indexOf(place) + " " + cluster;
    for (const [from, a, to, b, items] of rows) {
      if (from === places[0]) total[node(from, a)] = (total[node(from, a)] ?? 0) + items;
      total[node(to, b)] = (total[node(to, b)] ?? 0) + items;
    }
    const shade = (name) => PALETTE[Number(name.split(" ")[1]) % PALETTE.length];
    const text = ([from, a, to, b, items]) => `${from}, cluster ${a} → ${to}, cluster ${b}: ${count(items)} items`;
    return {
      places, tip: (i) => text(rows[i]), part: (p) => p.dataType === "edge" ? text(rows[p.dataIndex]) : `${places[p.name.split(" ")[0]]}, cluster ${p.name.split(" ")[1]}: ${count(total[p.name])} items`,
      option: { series: [{
        type: "sankey", left: 8, right: 34, top: 6, bottom: 6, nodeGap: 6, draggable: false, emphasis: { focus: "adjacency" },
        label: { color: css("--ink"), formatter: (p) => p.name.split(" ")[1] }, lineStyle: { color: "source", opacity: 0.35 },
        data: Object.keys(total).map((name) => ({ name, depth: Number(name.split(" ")[0]), itemStyle: { color: shade(name),
          ...(places.length > 2 && places[name.split(" ")[0]].includes("this report") ? { borderColor: css("--ink"), borderWidth: 2 } : {}) } })),
        links: rows.map(([from, a, to, b, value]) => ({ source: node(from, a), target: node(to, b), value })),
      }] },
    };
  };
  const pictures = {
    "k": () => curves("k", ["score", ...tables.k.columns.filter((name) => name !== "ks" && name !== "score")], [
      ...(facts.suggested ? [[facts.suggested, "solid"]] : []), ...facts.runners_up.map((k) => [k, "dashed"])]),
    ...Object.fromEntries(["flow camps", "flow inputs", "flow k"].map((name) => [name, () => flow(name)])),
    "inputs": () => {
      const names = column("clusterings", "clustering"), x = column("clusterings", "clusters"), y = column("clusterings", "ari with consensus");
      return xy(axis("clusters of the clustering", { type: "value", min: Math.min(facts.k, ...x) - 1, max: Math.max(facts.k, ...x) + 1, minInterval: 1 }), axis("adjusted Rand index", { type: "value", max: 1 }), [{
        type: "scatter", symbolSize: 11, data: x.map((v, i) => ({ value: [v, y[i]], itemStyle: { color: i === facts.nearest ? css("--warn") : css("--accent"), opacity: 0.8 },
          label: { show: i === facts.nearest, formatter: names[i], position: "right", color: css("--ink") } })),
        markLine: { symbol: "none", silent: true, label: { color: css("--muted"), formatter: "this report" }, data: [{ xAxis: facts.k, lineStyle: { type: "dashed", color: css("--muted") } }] },
      }], (i) => `${names[i]}: ${x[i]} clusters, adjusted Rand index ${fixed(y[i])}`);
    },
    "effects": () => {
      const names = tables.effects.columns.slice(1), clusters = column("effects", "cluster"), n = names.length;
      const data = tables.effects.rows.flatMap((row, i) => row.slice(1).map((v, j) => [j, clusters.length - 1 - i, v]));
      const words = { color: css("--muted"), width: 110, overflow: "truncate", interval: 0 }, room = 20 + 5 * Math.min(20, Math.max(...names.map((one) => one.length)));
      return {
        across: n, height: 30 + room + 24 * clusters.length, tip: (i) => `cluster ${clusters[Math.floor(i / n)]}, ${names[i % n]}: effect ${fixed(data[i][2], 2)}`,
        option: {
          grid: { left: 62, right: 70, top: 10, bottom: room },
          xAxis: axis("", { type: "category", data: names, axisLabel: { ...words, rotate: 45 }, splitLine: { show: false } }),
          yAxis: axis("cluster", { type: "category", data: [...clusters].reverse(), axisLabel: words, splitLine: { show: false }, nameGap: 40 }),
          visualMap: { min: -2, max: 2, dimension: 2, right: 4, top: 10, itemHeight: 90, itemWidth: 14, text: ["2", "−2"], textStyle: { color: css("--muted") }, inRange: { color: ["#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2582b"] } },
          series: [{ type: "heatmap", data, progressive: 0, emphasis: { itemStyle: { borderColor: css("--ink"), borderWidth: 1 } } }],
        },
      };
    },
    "clusters": () => {
      const names = column("clusters", "cluster").slice(0, 200), sizes = column("clusters", "size"), dense = column("clusters", "density");
      return bars(names, sizes.slice(0, 200), (i) => colour(dense[i]), "cluster, largest first", (i) => `cluster ${names[i]}: ${count(sizes[i])} items, density ${fixed(dense[i])}`);
    },
    "coassociation": coassociation,
    "confidence": confidence,
    "agreement": (width) => {
      const labels = tables.agreement.columns.slice(1), words = { color: css("--muted"), width: 110, overflow: "truncate" };
      const room = 24 + Math.min(110, 7 * Math.max(...labels.map((one) => one.length)));
      return heat("agreement", labels, { room, axisLabel: { ...words, rotate: 55 } }, { room, axisLabel: words }, undefined, width);
    },
  };

  const charts = all("[data-chart]").map((box) => ({ box, chart: null }));
  const draw = (one, width) => {
    const { box } = one, { option, tip, part, places, across, height, canvas } = pictures[box.dataset.chart](width ?? box.clientWidth);
    one.chart?.dispose();
    if (height) box.style.height = height + "px";
    if (places && !box.previousElementSibling.matches(".places")) {
      const heads = make("div", "", { className: "places" });
      heads.append(...places.map((name) => make("span", name, { title: name, className: name.includes("this report") ? "chosen" : "" })));
      box.before(heads);
    }
    one.chart = echarts.init(box, null, { renderer: canvas ? "canvas" : "svg", width });
    one.chart.setOption({
      animation: false, textStyle: { fontFamily: "system-ui, sans-serif" },
      tooltip: { trigger: "item", confine: true, formatter: (p) => make("div", part ? part(p) : tip(p.dataIndex, p.seriesIndex)) },
      ...option,
    });
    one.chart.getZr().flush(); // paper does not wait for the next frame
    const series = option.series, length = (j) => (series[j].links ?? series[j].data).length;
    Object.assign(one, { at: [-1, 0], tip, series, length, across: across ?? 0 });
  };
  for (const one of charts) { // the arrow keys move over the marks; ECharts has no keyboard of its own
    const readout = one.box.nextElementSibling;
    one.box.addEventListener("keydown", (event) => {
      let [i, j] = one.at;
      const far = event.shiftKey ? 10 : 1, lines = { ArrowDown: 1, ArrowUp: -1 }[event.key], along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!lines && !along) return;
      event.preventDefault();
      if (lines && !one.across) j += lines; else i += far * (along ?? lines * one.across);
      j = (j + one.series.length) % one.series.length;
      i = Math.min(one.length(j) - 1, Math.max(0, i));
      one.at = [i, j];
      one.chart.dispatchAction({ type: "showTip", seriesIndex: j, dataIndex: i });
      readout.textContent = one.tip(i, j);
    });
    one.box.addEventListener("blur", () => { one.chart.dispatchAction({ type: "hideTip" }); readout.textContent = ""; });
    draw(one);
    new ResizeObserver(() => { if (one.box.clientWidth !== one.chart.getWidth()) draw(one); }).observe(one.box);
  }

  // -- light and dark, paper, where in the page we are ---------------------------------------------------------
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const redraw = (theme, width) => { if (theme) root.dataset.theme = theme; else delete root.dataset.theme; charts.forEach((one) => draw(one, width)); };
  document.getElementById("theme").addEventListener("click", () => redraw((root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark"));
  dark.addEventListener("change", () => redraw(root.dataset.theme));
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; redraw("light", 640); });
  addEventListener("afterprint", () => redraw(before));
  const links = new Map(all("nav a").map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((one) => one.isIntersecting)) {
      links.forEach((a) => a.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  all("main section").forEach((section) => seen.observe(section));
})();
