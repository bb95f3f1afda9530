// What the page does: sorts tables, draws larger, shows the variable that is chosen, moves with the sliders.
// Texts enter the page as texts alone (textContent), never as markup.
(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);

  function number(value, digits = 3) {
    if (value === null || Number.isNaN(value)) return "-";
    if (!Number.isFinite(value)) return "more than can be said";
    if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
    if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
    const text = value.toPrecision(digits);
    return text.includes("e") ? text.replace("e-", "e-0").replace(/e-0(\d\d)/, "e-$1") : String(Number(text));
  }

  function made(tag, content = [], className = "") {
    const element = document.createElement(tag);
    element.append(...[content].flat());
    if (className) element.className = className;
    return element;
  }

  function drawn(tag, attributes, ...parts) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...parts);
    return element;
  }

  // --- tables -------------------------------------------------------------------------------------------------
  function before(one, other) {
    const numbers = [one, other].map((value) => typeof value === "number" && !Number.isNaN(value));
    if (numbers[0] && numbers[1]) return one - other;
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    return String(one).localeCompare(String(other), "en", { numeric: true });
  }

  function sortBy(table, column, descending) {
    const keyOf = ({ dataset, textContent }) => (dataset.v === undefined ? textContent : Number(dataset.v));
    const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row.cells[column]), row]);
    rows.sort((one, other) => (descending ? before(other[0], one[0]) : before(one[0], other[0])));
    table.tBodies[0].append(...rows.map((pair) => pair[1]));
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  document.addEventListener("click", (event) => {
    const head = event.target.closest("table.sortable thead button")?.closest("th");
    if (!head) return;
    const table = head.closest("table"), now = head.getAttribute("aria-sort");
    const numeric = table.tBodies[0].rows[0]?.cells[head.cellIndex].dataset.v !== undefined;
    sortBy(table, head.cellIndex, now ? now === "ascending" : numeric);
  });

  // Numbers keep their full value for sorting, and are shown to three digits; elements stay as they are.
  function cell(value) {
    if (typeof value !== "number") return made("td", value ?? "-");
    const element = made("td", number(value), "n");
    element.dataset.v = String(value);
    return element;
  }

  function sortableTable(columns, rows) {
    const heads = columns.map((name) => {
      const button = made("button", name), th = made("th", button);
      button.type = "button";
      th.scope = "col";
      return th;
    });
    const lines = rows.map((row, i) => {
      const line = made("tr", row.map(cell));
      line.dataset.i = i;
      return line;
    });
    return made("table", [made("thead", made("tr", heads)), made("tbody", lines)], "sortable");
  }

  // A table filled again: in the order of its rows, or as the reader had sorted it.
  function fill(table, columns, rows, chosen, keepsOrder) {
    const sorted = keepsOrder && table.querySelector("[aria-sort]");
    table.replaceChildren(...sortableTable(columns, rows).children);
    table.tBodies[0].rows[chosen]?.classList.add("chosen");
    if (sorted) sortBy(table, sorted.cellIndex, sorted.getAttribute("aria-sort") === "descending");
  }

  // A bar from 0 to 1, or an estimate with an interval.
  function bar(middle, low, high) {
    const at = (share) => 6 + 188 * share;
    const parts = low === undefined
      ? [drawn("rect", { class: "length", x: 6, y: 4, width: 188 * middle, height: 10 })]
      : [drawn("line", { class: "bar", x1: at(low), x2: at(high), y1: 9, y2: 9 }), drawn("circle", { class: "dot", cx: at(middle), cy: 9, r: 5 })];
    const ground = drawn("rect", { class: "ground", x: 6, y: 8, width: 188, height: 2 });
    return drawn("svg", { class: "small", viewBox: "0 0 200 18", preserveAspectRatio: "none", "aria-hidden": "true" }, ground, ...parts);
  }

  const facts = (pairs) => made("dl", pairs.map(([name, words]) => made("div", [made("dt", name), made("dd", words)])), "facts");

  // --- the drawing --------------------------------------------------------------------------------------------
  // Cividis, light to dark: read alike with and without colour vision. White letters stand on the last four.
  const SHADES = ["#fee838", "#e1cc55", "#c3b369", "#a59c74", "#8a8678", "#707173", "#575d6d", "#3b496c", "#123570"];
  const MOST_SHOWN = 2000;
  const graph = byId("graph"), known = data.graph;
  const nodes = graph ? [...graph.querySelectorAll(".node")] : [];
  const childrenOf = (i) => known.parents.flatMap((parents, k) => (parents.includes(i) ? [k] : []));
  let chosen = -1, measures = known ? known.measures : [], onChosen = () => [];

  function colour() {
    const select = byId("measure");
    if (!select || !measures.length) return;
    if (!select.options.length) select.append(...measures.map((one) => new Option(one.words, one.name)));
    const measure = measures.find((one) => one.name === select.value);
    const finite = measure.values.filter(Number.isFinite);
    const low = Math.min(...finite), high = Math.max(...finite);
    const scaled = low > 0 && high / low > 20 ? Math.log : (value) => value;
    const share = (value) => (high > low ? (scaled(value) - scaled(low)) / (scaled(high) - scaled(low)) : 0);
    nodes.forEach((node, i) => {
      const value = measure.values[i], shade = Number.isFinite(value) ? Math.round(share(value) * (SHADES.length - 1)) : -1;
      node.children[1].style.fill = SHADES[shade] ?? "";
      node.children[2].style.fill = shade < 0 ? "" : shade > 4 ? "#ffffff" : "#000000";
      node.setAttribute("aria-label", `${known.names[i]}, ${measure.words} ${number(value)}`);
      node.firstChild.textContent = `${known.names[i]}: ${measure.words} ${number(value)}`;
    });
    const steps = SHADES.map((shade, k) => drawn("rect", { x: 20 * k, y: 0, width: 20, height: 14, fill: shade }));
    const ramp = drawn("svg", { viewBox: "0 0 180 14", width: 180 }, ...steps);
    byId("scale").replaceChildren(made("span", `${measure.words}:`), made("span", number(low)), ramp, made("span", number(high)));
  }

  function choose(i, focus) {
    const last = Math.max(chosen, 0);  // one variable is in the order of the Tab key, the first until one is chosen
    nodes[last].classList.remove("chosen");
    nodes[last].setAttribute("tabindex", "-1");
    chosen = i;
    nodes[i].classList.add("chosen");
    nodes[i].setAttribute("tabindex", "0");
    graph.classList.add("picked");
    for (const arc of graph.querySelectorAll(".arc")) arc.classList.toggle("near", Number(arc.dataset.p) === i || Number(arc.dataset.c) === i);
    for (const row of document.querySelectorAll("#families tbody tr")) row.classList.toggle("chosen", Number(row.dataset.i) === i);
    if (focus) nodes[i].focus({ preventScroll: true });
    show();
  }

  function show() {
    if (chosen < 0) return;
    const named = (list) => list.map((k) => known.names[k]).join(", ") || "none";
    const kin = [["parents", named(known.parents[chosen])], ["children", named(childrenOf(chosen))], ["levels", known.levels[chosen].join(", ")]];
    byId("chosen").replaceChildren(made("h3", known.names[chosen]), facts(kin), ...onChosen(chosen));
  }

  function rowsOf(columns, rows, count, what) {
    const left = rows.length < count ? [made("p", `The first ${number(rows.length)} of ${number(count)} ${what} are shown.`, "note")] : [];
    const box = made("div", sortableTable(columns, rows), "scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "table of the chosen variable");
    return [box, ...left];
  }

  function tableOf(i) {
    const table = data.tables[i];
    if (!table) return [made("p", "Its table is left out of this page.", "note")];
    const columns = table.given.length, named = columns > 1 || table.given[0], intervals = table.low !== undefined;
    const rows = [];
    for (let c = 0; c < columns && rows.length < MOST_SHOWN; c++) {
      table.levels.forEach((level, r) => {
        const numbers = (intervals ? ["mean", "low", "high"] : ["mean"]).map((name) => table[name][r * columns + c]);
        rows.push([...(named ? [table.given[c]] : []), level, ...numbers, bar(...numbers)]);
      });
    }
    const heads = [...(named ? ["given"] : []), known.names[i], "probability", ...(intervals ? ["low", "high"] : []), "from 0 to 1"];
    return rowsOf(heads, rows, columns * table.levels.length, "entries");
  }

  function countsOf(i) {
    const table = data.counts[i];
    if (!table) return [made("p", "Its released table is left out of this page.", "note")];
    const rows = table.values.slice(0, MOST_SHOWN).map((value, at) => {
      const labels = [];
      for (const levels of [...table.levels].reverse()) {
        labels.unshift(levels[at % levels.length]);
        at = Math.floor(at / levels.length);
      }
      return [...labels, value];
    });
    const words = `Released for ${table.axes.join(" x ")}; the noise in each number has a standard deviation of ${number(table.sd)} rows.`;
    return [made("p", words), ...rowsOf([...table.axes, "released"], rows, table.values.length, "numbers")];
  }

  if (graph) {
    const wide = Number(graph.dataset.width), high = Number(graph.dataset.height), natural = Math.max(1.2 * wide, 300);
    const places = nodes.map((node) => node.getAttribute("transform").match(/-?[\d.]+/g).map(Number));
    graph.parentElement.style.width = natural > 640 ? "100%" : `${natural}px`;
    let times = 1;  // as large as the whole that fits its box, which scrolls
    const into = (i) => nodes[i].scrollIntoView({ block: "nearest", inline: "nearest" });
    const look = (wanted) => {
      times = Math.max(1, Math.min(wanted, wide / 160));
      graph.style.width = `calc(${times} * min(100%, ${44 * wide / high}rem))`;
      if (chosen >= 0) into(chosen);
    };
    byId("closer").addEventListener("click", () => look(1.5 * times));
    byId("further").addEventListener("click", () => look(times / 1.5));
    byId("whole").addEventListener("click", () => look(1));
    graph.addEventListener("click", (event) => {
      const node = event.target.closest(".node");
      if (node) choose(Number(node.dataset.i), true);
    });
    // Up to a parent, down to a child, or along the row: the nearest of them.
    const walk = (key) => {
      const [x, y] = places[chosen], way = key === "ArrowLeft" ? -1 : 1;
      const along = () => nodes.flatMap((_, k) => (places[k][1] === y && way * (places[k][0] - x) > 0 ? [k] : []));
      const near = key === "ArrowUp" ? known.parents[chosen] : key === "ArrowDown" ? childrenOf(chosen) : along();
      if (!near.length) return;
      const away = (k) => Math.hypot(places[k][0] - x, places[k][1] - y);
      const best = near.reduce((one, other) => (away(other) < away(one) ? other : one));
      choose(best, true);
      into(best);
    };
    graph.addEventListener("keydown", (event) => {
      if (event.key.startsWith("Arrow") && chosen >= 0) walk(event.key);
      else if (event.key === "+" || event.key === "=") look(1.5 * times);
      else if (event.key === "-") look(times / 1.5);
      else if (event.key === "0") look(1);
      else if (event.key === "Enter" || event.key === " ") choose(Number(document.activeElement.dataset.i ?? chosen), true);
      else return;
      event.preventDefault();
    });
    const find = byId("find");
    const found = () => {
      const wanted = find.value.trim(), exact = known.names.indexOf(wanted);
      const i = exact >= 0 ? exact : known.names.findIndex((name) => name.toLowerCase().startsWith(wanted.toLowerCase()));
      if (!wanted || i < 0) return;
      choose(i);
      look(nodes.length <= 60 ? 1 : Math.max(times, 4));
    };
    find.addEventListener("change", found);
    find.addEventListener("keydown", (event) => { if (event.key === "Enter") found(); });
    byId("measure").addEventListener("change", colour);
    nodes[0].setAttribute("tabindex", "0");
    nodes.forEach((node, i) => node.addEventListener("focus", () => { if (chosen !== i) choose(i); }));
    look(1);
    onChosen = data.tables ? tableOf : data.counts ? countsOf : onChosen;
    colour();
    if (data.tables || data.counts) choose(0);
  }

  // --- what privacy costs -------------------------------------------------------------------------------------
  if (data.cost) {
    const { epsilons, rows, start, budgets } = data.cost;
    const sliders = { epsilon: byId("epsilon"), n: byId("rows") };
    const buttons = known.names.map((name, i) => {
      const button = made("button", name);
      button.type = "button";
      button.addEventListener("click", () => choose(i));
      return button;
    });
    const worst = () => costs.reduce((one, other, i) => (other.tv > costs[one].tv ? i : one), 0);
    let costs = [];
    sliders.epsilon.max = epsilons.length - 1;
    sliders.n.max = rows.length - 1;

    function update() {
      const at = Number(sliders.n.value), n = rows[at], epsilon = epsilons[Number(sliders.epsilon.value)];
      const { typed, mechanisms, families, tv, kl } = budgets[Number(sliders.epsilon.value)];
      costs = families.map(([table, moved, spent, scale, rmse, needed], i) => (
        { table, moved, spent, scale, rmse, needed, tv: tv[at][i], kl: kl[at][i] }));
      const valuesOf = (name) => costs.map((one) => one[name]);
      measures = [
        { name: "tv", words: "error of the family's margin (total variation)", values: valuesOf("tv") },
        { name: "rmse", words: "standard error of a cell, rows", values: valuesOf("rmse") },
        { name: "needed", words: "rows needed", values: valuesOf("needed") },
        { name: "cells", words: "cells", values: known.cells },
      ];
      byId("epsilon-number").textContent = String(epsilon);
      byId("rows-number").textContent = number(n);
      sliders.epsilon.setAttribute("aria-valuetext", `epsilon ${epsilon}`);
      sliders.n.setAttribute("aria-valuetext", `${number(n)} rows`);

      const found = mechanisms.map((one) => ({ ...one, error: one.rmse[at] })).sort((one, other) => one.error - other.error);
      const largest = Math.max(...found.map((one) => one.error)), bestAt = found.findIndex((one) => one.best);
      fill(byId("mechanisms"), ["mechanism", "error of a cell, rows", "beside the others", "lowest scale", "highest scale", "note"], found.map((one) => [
        one.mechanism + (one.best ? " \u2190 recommended" : ""), one.error, bar(one.error / largest), one["lowest scale"], one["highest scale"], one.note]), bestAt, false);
      fill(byId("families"), ["variable", "parents", "cells", "read from", "noise scale", "error of a cell", "tv", "kl", "n needed"], costs.map((one, i) => [
        buttons[i], known.parents[i].map((k) => known.names[k]).join(", "), known.cells[i], one.table || "-", one.scale, one.rmse, one.tv, one.kl, one.needed]), chosen, true);

      const best = found[bestAt], paper = found.find((one) => one.paper && !one.best);
      byId("recommended").textContent = `Recommended: ${best.mechanism}. The noise in one cell of a family's table has a standard error of ${number(best.error)} rows` + (paper ? `, against ${number(paper.error)} by ${paper.mechanism}.` : ".");
      byId("typed").replaceChildren("In Python: ", made("code", typed));
      const mean = costs.reduce((sum, one) => sum + one.tv, 0) / costs.length;
      byId("meaning").textContent = `With ${number(n)} rows the worst margin, that of ${known.names[worst()]}, will be off by ${number(costs[worst()].tv)} of all rows (total variation); the mean is ${number(mean)}.`;
      colour();
      show();
      Object.assign(document.body.dataset, { best: best.mechanism, epsilon, n });
    }

    onChosen = (i) => {
      const one = costs[i];
      const arcs = data.arcs.filter((arc) => arc.child === i).map((arc) => {
        const saved = 1 - 1 / arc.cost;
        const words = saved < 0.0005 ? "costs nothing to speak of" : `costs ${number(100 * saved, 2)} % of the standard error of all released counts`;
        return made("p", `The arc from ${known.names[arc.parent]} ${words}.`);
      });
      return [facts([
        ["cells of its table", number(known.cells[i])], ["read from", one.table || "-"],
        ["moved by one person", number(one.moved)], ["epsilon of that table", number(one.spent)],
        ["noise scale", number(one.scale)], ["standard error of a cell", `${number(one.rmse)} rows`],
        ["error of the margin (tv)", number(one.tv)], ["divergence of the posterior", `${number(one.kl)} nats`],
        ["rows needed", number(one.needed)],
      ]), ...arcs];
    };

    const put = (stops) => {
      [sliders.epsilon.value, sliders.n.value] = stops;
      update();
    };
    for (const slider of Object.values(sliders)) slider.addEventListener("input", update);
    byId("reset").addEventListener("click", () => put(start));
    put(start);
    choose(worst());
  }
  document.body.dataset.ready = "yes";
})();
