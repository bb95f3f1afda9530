// What the page does: sorts tables, draws closer, shows the variable that is chosen, moves with the sliders.
// Texts enter the page as texts alone (textContent), never as markup.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const space = "http://www.w3.org/2000/svg";

  function number(value, digits = 3) {
    if (value === null || Number.isNaN(value)) return "-";
    if (!Number.isFinite(value)) return "more than can be said";
    if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en-US");
    if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
    const text = value.toPrecision(digits);
    return text.includes("e") ? text.replace("e-", "e-0").replace(/e-0(\d\d)/, "e-$1") : String(Number(text));
  }

  function made(tag, words, className) {
    const element = document.createElement(tag);
    if (words !== undefined) element.textContent = words;
    if (className) element.className = className;
    return element;
  }

  function drawn(tag, attributes) {
    const element = document.createElementNS(space, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  // A cell: numbers keep their full value for sorting, and are shown to three digits.
  function cell(value, digits) {
    if (typeof value !== "number") return made("td", value === null ? "-" : value);
    const element = made("td", number(value, digits), "n");
    element.dataset.v = String(value);
    return element;
  }

  // --- tables -------------------------------------------------------------------------------------------------
  const keyOf = (row, column) => {
    const part = row.cells[column];
    return part.dataset.v === undefined ? part.textContent : Number(part.dataset.v);
  };

  function before(one, other) {
    const numbers = [one, other].map((value) => typeof value === "number" && !Number.isNaN(value));
    if (numbers[0] && numbers[1]) return one - other;
    if (numbers[0] !== numbers[1]) return numbers[0] ? -1 : 1;
    return String(one).localeCompare(String(other), "en", { numeric: true });
  }

  function sortBy(table, column, descending) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [keyOf(row, column), row]);
    rows.sort((one, other) => (descending ? before(other[0], one[0]) : before(one[0], other[0])));
    body.append(...rows.map((pair) => pair[1]));
    [...table.tHead.rows[0].cells].forEach((head, i) => {
      if (i === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("table.sortable thead button");
    if (!button) return;
    const head = button.closest("th"), table = head.closest("table"), column = head.cellIndex;
    const first = table.tBodies[0].rows[0];
    const numeric = first && first.cells[column].dataset.v !== undefined;
    const now = head.getAttribute("aria-sort");
    sortBy(table, column, now ? now === "ascending" : Boolean(numeric));
  });

  function sortableTable(columns, rows) {
    const table = made("table", undefined, "sortable"), head = made("tr"), body = made("tbody");
    for (const name of columns) {
      const th = made("th"), button = made("button", name);
      th.scope = "col";
      button.type = "button";
      th.append(button);
      head.append(th);
    }
    for (const row of rows) {
      const line = made("tr");
      for (const value of row) {
        if (value instanceof Element) { const td = made("td"); td.append(value); line.append(td); }
        else line.append(cell(value));
      }
      body.append(line);
    }
    const thead = made("thead");
    thead.append(head);
    table.append(thead, body);
    const scroll = made("div", undefined, "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "table of the chosen variable");
    scroll.append(table);
    return scroll;
  }

  // A bar from 0 to 1 with an interval.
  function bar(middle, low, high) {
    const svg = drawn("svg", { class: "small", viewBox: "0 0 200 18", preserveAspectRatio: "none", "aria-hidden": "true" });
    const at = (share) => 6 + 188 * share;
    svg.append(drawn("rect", { class: "ground", x: 6, y: 8, width: 188, height: 2 }));
    if (low === undefined) {
      svg.append(drawn("rect", { class: "length", x: 6, y: 4, width: 188 * middle, height: 10 }));
    } else {
      svg.append(drawn("line", { class: "bar", x1: at(low), x2: at(high), y1: 9, y2: 9 }));
      svg.append(drawn("circle", { class: "dot", cx: at(middle), cy: 9, r: 5 }));
    }
    return svg;
  }

  function facts(pairs) {
    const list = made("dl", undefined, "facts");
    for (const [name, words] of pairs) {
      const pair = made("div");
      pair.append(made("dt", name), made("dd", words));
      list.append(pair);
    }
    return list;
  }

  // --- the drawing --------------------------------------------------------------------------------------------
  // Cividis, light to dark: read alike with and without colour vision.
  const SHADES = ["#fee838", "#e1cc55", "#c3b369", "#a59c74", "#8a8678", "#707173", "#575d6d", "#3b496c", "#123570"];
  const MOST_SHOWN = 2000;
  const graph = byId("graph"), known = data.graph;
  const nodes = graph ? [...graph.querySelectorAll(".node")] : [];
  const arcs = graph ? [...graph.querySelectorAll(".arc")] : [];
  let chosen = -1, measures = known ? known.measures : [], onChosen = () => {};

  function mixed(share) {
    const at = Math.max(0, Math.min(1, share)) * (SHADES.length - 1), i = Math.min(Math.floor(at), SHADES.length - 2);
    const part = (colour, k) => parseInt(colour.slice(1 + 2 * k, 3 + 2 * k), 16);
    const rgb = [0, 1, 2].map((k) => part(SHADES[i], k) + (at - i) * (part(SHADES[i + 1], k) - part(SHADES[i], k)));
    const light = rgb.map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    const luminance = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
    return { fill: `rgb(${rgb.map(Math.round).join(",")})`, ink: luminance > 0.179 ? "#000000" : "#ffffff" };
  }

  function colour() {
    const select = byId("measure");
    if (!select || !measures.length) return;
    const measure = measures.find((one) => one.name === select.value) || measures[0];
    const finite = measure.values.filter((value) => Number.isFinite(value));
    const low = Math.min(...finite), high = Math.max(...finite);
    const logs = low > 0 && high / low > 20;
    const share = (value) => {
      if (!(high > low)) return 0;
      return logs ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    };
    nodes.forEach((node, i) => {
      const value = measure.values[i];
      const { fill, ink } = Number.isFinite(value) ? mixed(share(value)) : { fill: "", ink: "" };
      node.children[1].style.fill = fill;
      node.children[2].style.fill = ink;
      node.setAttribute("aria-label", `${known.names[i]}, ${measure.words} ${number(value)}`);
      node.firstChild.textContent = `${known.names[i]}: ${measure.words} ${number(value)}`;
    });
    const scale = byId("scale");
    scale.replaceChildren();
    const ramp = drawn("svg", { viewBox: "0 0 180 14", width: 180 });
    for (let k = 0; k < 36; k++) {
      const step = drawn("rect", { x: 5 * k, y: 0, width: 5.5, height: 14 });
      step.style.fill = mixed(k / 35).fill;
      ramp.append(step);
    }
    scale.append(made("span", `${measure.words}:`), made("span", number(low)), ramp, made("span", number(high)));
  }

  function offer() {
    const select = byId("measure");
    if (!select) return;
    const was = select.value;
    select.replaceChildren(...measures.map((measure) => {
      const option = made("option", measure.words);
      option.value = measure.name;
      return option;
    }));
    if (measures.some((measure) => measure.name === was)) select.value = was;
    colour();
  }

  function choose(i, focus) {
    if (i < 0 || i >= nodes.length) return;
    const last = Math.max(chosen, 0);  // one variable is in the order of the Tab key, the first until one is chosen
    nodes[last].classList.remove("chosen");
    nodes[last].setAttribute("tabindex", "-1");
    chosen = i;
    nodes[i].classList.add("chosen");
    nodes[i].setAttribute("tabindex", "0");
    graph.classList.add("picked");
    for (const arc of arcs) arc.classList.toggle("near", Number(arc.dataset.p) === i || Number(arc.dataset.c) === i);
    for (const row of document.querySelectorAll("#families tbody tr")) row.classList.toggle("chosen", Number(row.dataset.i) === i);
    if (focus) nodes[i].focus({ preventScroll: true });
    show();
  }

  function show() {
    const panel = byId("chosen");
    if (!panel || chosen < 0) return;
    const i = chosen, names = (list) => list.map((k) => known.names[k]).join(", ") || "none";
    const children = known.parents.flatMap((parents, k) => (parents.includes(i) ? [k] : []));
    const parts = [made("h3", known.names[i])];
    const levels = known.levels[i];
    parts.push(facts([["parents", names(known.parents[i])], ["children", names(children)], ["levels", levels.join(", ")]]));
    panel.replaceChildren(...parts, ...(onChosen(i) || []));
  }

  function tableOf(i) {
    const table = data.tables[i];
    if (!table) return [made("p", "Its table is left out of this page.", "note")];
    const columns = table.given.length, intervals = table.low !== undefined;
    const rows = [];
    for (let c = 0; c < columns && rows.length < MOST_SHOWN; c++) {
      table.levels.forEach((level, r) => {
        const at = r * columns + c, row = columns > 1 || table.given[0] ? [table.given[c]] : [];
        row.push(level, table.mean[at]);
        if (intervals) row.push(table.low[at], table.high[at]);
        row.push(intervals ? bar(table.mean[at], table.low[at], table.high[at]) : bar(table.mean[at]));
        rows.push(row);
      });
    }
    const heads = columns > 1 || table.given[0] ? ["given"] : [];
    heads.push(known.names[i], "probability", ...(intervals ? ["low", "high"] : []), "from 0 to 1");
    const parts = [sortableTable(heads, rows)];
    if (rows.length < columns * table.levels.length) parts.push(made("p", `The first ${number(rows.length)} of ${number(columns * table.levels.length)} entries are shown.`, "note"));
    return parts;
  }

  function countsOf(i) {
    const table = data.counts[i];
    if (!table) return [made("p", "Its released table is left out of this page.", "note")];
    const sizes = table.levels.map((levels) => levels.length), rows = [];
    for (let at = 0; at < table.values.length && at < MOST_SHOWN; at++) {
      let rest = at;
      const labels = sizes.map(() => "");
      for (let axis = sizes.length - 1; axis >= 0; axis--) {
        labels[axis] = table.levels[axis][rest % sizes[axis]];
        rest = Math.floor(rest / sizes[axis]);
      }
      rows.push([...labels, table.values[at]]);
    }
    const parts = [made("p", `Released for ${table.axes.join(" x ")}; the noise in each number has a standard deviation of ${number(table.sd)} rows.`)];
    parts.push(sortableTable([...table.axes, "released"], rows));
    if (rows.length < table.values.length) parts.push(made("p", `The first ${number(rows.length)} of ${number(table.values.length)} numbers are shown.`, "note"));
    return parts;
  }

  if (graph) {
    const whole = { x: 0, y: 0, w: Number(graph.dataset.width), h: Number(graph.dataset.height) };
    let view = { ...whole };
    const look = () => graph.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    const place = (node) => node.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
    const places = nodes.map(place);
    const natural = Math.min(Math.max(whole.w * 1.2, 300), 1160);
    graph.parentElement.style.width = natural > 640 ? "100%" : `${natural}px`;
    graph.style.aspectRatio = `${whole.w} / ${whole.h}`;
    const zoom = (factor, x = view.x + view.w / 2, y = view.y + view.h / 2) => {
      const w = Math.min(whole.w * 1.5, Math.max(160, view.w * factor)), ratio = w / view.w;
      view = { x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio, w, h: view.h * ratio };
      look();
    };
    const into = (i) => {
      const [x, y] = places[i];
      if (x > view.x && x < view.x + view.w && y > view.y && y < view.y + view.h) return;
      view = { ...view, x: x - view.w / 2, y: y - view.h / 2 };
      look();
    };
    byId("closer").addEventListener("click", () => (chosen < 0 ? zoom(0.6) : zoom(0.6, ...places[chosen])));
    byId("further").addEventListener("click", () => zoom(1 / 0.6));
    byId("whole").addEventListener("click", () => { view = { ...whole }; look(); });
    graph.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const box = graph.getBoundingClientRect(), ratio = Math.max(view.w / box.width, view.h / box.height);
      const x = view.x + view.w / 2 + (event.clientX - box.x - box.width / 2) * ratio;
      const y = view.y + view.h / 2 + (event.clientY - box.y - box.height / 2) * ratio;
      zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2, x, y);
    }, { passive: false });
    let from = null;
    graph.addEventListener("pointerdown", (event) => { from = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false }; });
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      const box = graph.getBoundingClientRect(), ratio = Math.max(from.view.w / box.width, from.view.h / box.height);
      const dx = event.clientX - from.x, dy = event.clientY - from.y;
      if (Math.abs(dx) + Math.abs(dy) < 5 && !from.moved) return;
      from.moved = true;
      graph.classList.add("moving");
      view = { ...from.view, x: from.view.x - dx * ratio, y: from.view.y - dy * ratio };
      look();
    });
    window.addEventListener("pointerup", () => { setTimeout(() => { from = null; }, 0); graph.classList.remove("moving"); });
    graph.addEventListener("click", (event) => {
      const node = event.target.closest(".node");
      if (node && !(from && from.moved)) choose(Number(node.dataset.i), true);
    });
    // Along a row to the next variable, up to a parent, down to a child; where there is none to the nearest that way.
    const step = (key) => {
      const [x, y] = places[chosen], away = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
      const kin = key === "ArrowUp" ? known.parents[chosen] : key === "ArrowDown"
        ? known.parents.flatMap((parents, k) => (parents.includes(chosen) ? [k] : [])) : [];
      const near = kin.length ? kin : places.map((_, k) => k);
      let best = -1, least = Infinity;
      for (const k of near) {
        const dx = places[k][0] - x, dy = places[k][1] - y, ahead = dx * away[0] + dy * away[1];
        if (k === chosen || (ahead <= 0 && !kin.length)) continue;
        const aside = Math.abs(dx * away[1]) + Math.abs(dy * away[0]), cost = ahead + 3 * aside;
        if (cost < least) { least = cost; best = k; }
      }
      if (best >= 0) { choose(best, true); into(best); }
    };
    graph.addEventListener("keydown", (event) => {
      if (event.key.startsWith("Arrow") && chosen >= 0) step(event.key);
      else if (event.key === "+" || event.key === "=") zoom(0.7, ...(chosen < 0 ? [] : places[chosen]));
      else if (event.key === "-") zoom(1 / 0.7);
      else if (event.key === "0") { view = { ...whole }; look(); }
      else if (event.key === "Enter" || event.key === " ") choose(Number(document.activeElement.dataset.i ?? chosen), true);
      else return;
      event.preventDefault();
    });
    const find = byId("find");
    const found = () => {
      const wanted = find.value.trim();
      if (!wanted) return;
      let i = known.names.indexOf(wanted);
      if (i < 0) i = known.names.findIndex((name) => name.toLowerCase().startsWith(wanted.toLowerCase()));
      if (i < 0) return;
      choose(i);
      if (nodes.length > 60 && view.w > whole.w / 3) zoom(whole.w / 4 / view.w, ...places[i]);
      view = { ...view, x: places[i][0] - view.w / 2, y: places[i][1] - view.h / 2 };
      if (nodes.length <= 60) view = { ...whole };
      look();
    };
    find.addEventListener("change", found);
    find.addEventListener("keydown", (event) => { if (event.key === "Enter") found(); });
    byId("measure").addEventListener("change", colour);
    nodes[0].setAttribute("tabindex", "0");
    nodes.forEach((node, i) => node.addEventListener("focus", () => { if (chosen !== i) choose(i); }));
    if (data.tables) onChosen = tableOf;
    if (data.counts) onChosen = countsOf;
    offer();
    if (data.tables || data.counts) choose(0);
  }

  // --- what privacy costs -------------------------------------------------------------------------------------
  if (data.cost) {
    const { epsilons, rows, start, budgets } = data.cost;
    const sliders = { epsilon: byId("epsilon"), n: byId("rows") };
    let priced = null, costs = [];
    sliders.epsilon.max = epsilons.length - 1;
    sliders.n.max = rows.length - 1;

    function fillMechanisms(found) {
      const largest = Math.max(...found.map((one) => one.error));
      byId("mechanisms").tBodies[0].replaceChildren(...found.map((one) => {
        const line = made("tr", undefined, one.best ? "chosen" : ""), picture = made("td");
        picture.append(bar(one.error / largest));
        line.append(made("td", one.mechanism + (one.best ? " \u2190 recommended" : "")), cell(one.error), picture);
        line.append(cell(one["lowest scale"]), cell(one["highest scale"]), made("td", one.note));
        return line;
      }));
      for (const head of byId("mechanisms").tHead.rows[0].cells) head.removeAttribute("aria-sort");
    }

    function fillFamilies() {
      const body = byId("families").tBodies[0];
      if (!body.rows.length) {
        body.append(...known.names.map((name, i) => {
          const line = made("tr"), first = made("td"), button = made("button", name);
          line.dataset.i = i;
          button.type = "button";
          button.addEventListener("click", () => choose(i));
          first.append(button);
          line.append(first, made("td", known.parents[i].map((k) => known.names[k]).join(", ")));
          for (let k = 0; k < 7; k++) line.append(made("td"));
          return line;
        }));
      }
      for (const line of body.rows) {
        const i = Number(line.dataset.i), one = costs[i];
        [known.cells[i], one.table, one.scale, one.rmse, one.tv, one.kl, one.needed].forEach((value, k) => {
          const part = line.cells[k + 2], words = typeof value === "number" ? number(value) : value || "-";
          if (typeof value === "number") { part.className = "n"; part.dataset.v = String(value); }
          if (part.textContent !== words) part.textContent = words;
        });
      }
      const sorted = byId("families").tHead.querySelector("[aria-sort]");
      if (sorted) sortBy(byId("families"), sorted.cellIndex, sorted.getAttribute("aria-sort") === "descending");
    }

    const worst = () => costs.reduce((one, other, i) => (other.tv > costs[one].tv ? i : one), 0);

    function advise(found, n) {
      const best = found.find((one) => one.best), paper = found.find((one) => one.paper && !one.best);
      byId("recommended").textContent = `Recommended: ${best.mechanism}. The noise in one cell of a family's table has a standard error of ${number(best.error)} rows` + (paper ? `, against ${number(paper.error)} by ${paper.mechanism}.` : ".");
      byId("typed").replaceChildren("In Python: ", made("code", priced.typed));
      const mean = costs.reduce((sum, one) => sum + one.tv, 0) / costs.length;
      byId("meaning").textContent = `With ${number(n)} rows the worst margin, that of ${known.names[worst()]}, will be off by ${number(costs[worst()].tv)} of all rows (total variation); the mean is ${number(mean)}.`;
      document.body.dataset.best = best.mechanism;
    }

    function update() {
      const at = Number(sliders.n.value), epsilon = epsilons[Number(sliders.epsilon.value)], n = rows[at];
      priced = budgets[Number(sliders.epsilon.value)];
      costs = priced.families.map(([table, moved, spent, scale, rmse, needed], i) => (
        { table, moved, spent, scale, rmse, needed, tv: priced.tv[at][i], kl: priced.kl[at][i] }));
      measures = [
        { name: "tv", words: "error of the family's margin (total variation)", values: costs.map((one) => one.tv) },
        { name: "rmse", words: "standard error of a cell, rows", values: costs.map((one) => one.rmse) },
        { name: "needed", words: "rows needed", values: costs.map((one) => one.needed) },
        { name: "cells", words: "cells", values: known.cells },
      ];
      byId("epsilon-number").textContent = String(epsilon);
      byId("rows-number").textContent = number(n);
      sliders.epsilon.setAttribute("aria-valuetext", `epsilon ${epsilon}`);
      sliders.n.setAttribute("aria-valuetext", `${number(n)} rows`);
      const found = priced.mechanisms.map((one) => ({ ...one, error: one.rmse[at] }));
      found.sort((one, other) => one.error - other.error);
      fillMechanisms(found);
      fillFamilies();
      advise(found, n);
      offer();
      show();
      document.body.dataset.epsilon = String(epsilon);
      document.body.dataset.n = String(n);
    }

    onChosen = (i) => {
      const one = costs[i];
      const parts = [facts([
        ["cells of its table", number(known.cells[i])], ["read from", one.table || "-"],
        ["moved by one person", number(one.moved)], ["epsilon of that table", number(one.spent)],
        ["noise scale", number(one.scale)], ["standard error of a cell", `${number(one.rmse)} rows`],
        ["error of the margin (tv)", number(one.tv)], ["divergence of the posterior", `${number(one.kl)} nats`],
        ["rows needed", number(one.needed)],
      ])];
      for (const arc of data.arcs.filter((one) => one.child === i)) {
        const saved = 1 - 1 / arc.cost;
        const words = saved < 0.0005 ? "costs nothing to speak of" : `costs ${number(100 * saved, 2)} % of the standard error of all released counts`;
        parts.push(made("p", `The arc from ${known.names[arc.parent]} ${words}.`));
      }
      return parts;
    };

    const put = (stops) => { [sliders.epsilon.value, sliders.n.value] = stops; update(); };
    for (const slider of Object.values(sliders)) slider.addEventListener("input", update);
    byId("reset").addEventListener("click", () => put(start));
    put(start);
    if (nodes.length) choose(worst());
  }
  document.body.dataset.ready = "yes";
})();
