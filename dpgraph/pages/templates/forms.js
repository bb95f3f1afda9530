// The closed forms of dpgraph.analysis, for any epsilon and n. Nothing here touches the page.
const forms = (() => {
  "use strict";

  // ln Gamma by Stirling's series above 12, by the recurrence below.
  function lgamma(x) {
    let shift = 0;
    while (x < 12) { shift += Math.log(x); x += 1; }
    const z = 1 / (x * x);
    const series = (((((-691 / 360360 * z + 1 / 1188) * z - 1 / 1680) * z + 1 / 1260) * z - 1 / 360) * z + 1 / 12) / x;
    return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - shift;
  }

  function digamma(x) {
    let shift = 0;
    while (x < 12) { shift += 1 / x; x += 1; }
    const z = 1 / (x * x);
    const series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760)))));
    return Math.log(x) - 0.5 / x - series - shift;
  }

  // P(standard normal < x): a series of positive terms near 0, a continued fraction in the tails.
  function ndtr(x) {
    const size = Math.abs(x) / Math.SQRT2;
    let tail;
    if (size < 2.5) {
      let term = size, sum = size;
      for (let k = 1; k < 80; k++) { term *= 2 * size * size / (2 * k + 1); sum += term; }
      tail = 0.5 - sum * Math.exp(-size * size) / Math.sqrt(Math.PI);
    } else {
      let fraction = size;
      for (let k = 120; k > 0; k--) fraction = size + k / 2 / fraction;
      tail = 0.5 * Math.exp(-size * size) / Math.sqrt(Math.PI) / fraction;
    }
    return x < 0 ? tail : 1 - tail;
  }

  // One cell of independent discrete Laplace noise: 1 / (2 sinh(1 / 2b)^2).
  function laplaceVariance(scale) {
    const half = 1 / (2 * scale);
    return half > 350 ? 0 : 1 / (2 * Math.sinh(half) ** 2);
  }

  // One cell of discrete Laplace noise on the plane of sum 0, K cells; docs/proofs.md P126.
  // 2 q (K - 1) / (1 - q)^2 F1 / F0, F0 = sum C(K-1, j)^2 q^j, F1 = sum C(K-1, j) C(K, j) / (j + 1) q^j.
  function sumZeroVariance(scale, cells) {
    if (cells === 1) return 0;
    const odds = 2 / scale, q = Math.exp(-odds);  // half of the L1 norm is up
    let zeroth = 1, first = 1, sum0 = 1, sum1 = 1;
    for (let j = 1; j < cells; j++) {
      zeroth *= q * ((cells - j) / j) ** 2;
      first *= q * ((cells - j) / j) * ((cells - j + 1) / (j + 1));
      sum0 += zeroth;
      sum1 += first;
      if (sum0 > 1e250 || sum1 > 1e250) { zeroth *= 1e-250; first *= 1e-250; sum0 *= 1e-250; sum1 *= 1e-250; }
    }
    return 2 * q * (cells - 1) / Math.expm1(-odds) ** 2 * sum1 / sum0;
  }

  function gaussianVariance(scale) {
    if (scale > 4) return scale * scale;
    let moment = 0, whole = 0;
    for (let z = 1; z <= 40; z++) {
      const part = Math.exp(-z * z / (2 * scale * scale));
      moment += z * z * part;
      whole += part;
    }
    return 2 * moment / (1 + 2 * whole);
  }

  const LEAST_SCALE = 2 ** -8;

  // Epsilon of rho-zCDP at delta (Canonne, Kamath and Steinke 2020, Corollary 13), the least over all orders.
  function epsilonOfRho(rho, delta) {
    const at = (t) => {
      const order = 1 + Math.exp(t);
      return order * rho - Math.log(order * delta) / (order - 1) + Math.log1p(-1 / order);
    };
    let low = -12, high = 25;
    const golden = (Math.sqrt(5) - 1) / 2;
    for (let step = 0; step < 120; step++) {
      const one = high - golden * (high - low), two = low + golden * (high - low);
      if (at(one) < at(two)) high = two; else low = one;
    }
    return Math.max(0, at((low + high) / 2));
  }

  function rhoOfEpsilon(epsilon, delta) {
    let low = -60, high = Math.log(epsilon + 1);
    for (let step = 0; step < 200; step++) {
      const middle = (low + high) / 2;
      if (epsilonOfRho(Math.exp(middle), delta) <= epsilon) low = middle; else high = middle;
    }
    return Math.exp(low);
  }

  function subsets(items) {
    let found = [[]];
    for (const item of items) found = found.concat(found.map((set) => [...set, item]));
    return found;
  }

  const ascending = (family) => [...family].sort((a, b) => a - b);

  // What does not depend on epsilon or n: which blocks a family's cells are made of, and with what shares.
  function prepare(data) {
    const sizes = data.sizes, index = new Map();
    const families = data.families.map((family) => {
      const many = ascending(family.filter((name) => sizes[name] > 1));
      return subsets(many).map((block) => {
        const key = block.join(",");
        if (!index.has(key)) index.set(key, index.size);
        let share = 1;
        for (const name of many) share *= block.includes(name) ? 1 - 1 / sizes[name] : 1 / sizes[name] ** 2;
        return [index.get(key), share];
      });
    });
    const cells = data.families.map((family) => family.reduce((product, name) => product * sizes[name], 1));
    const whole = cells.reduce((sum, many) => sum + many, 0);
    const one = [sizes.flatMap((size, name) => (size === 1 ? [name] : []))][0];
    const plans = data.candidates.map((candidate) => {
      if (candidate.form === "blocks") {
        const place = new Map(candidate.blocks.map((block, i) => [ascending(block).join(","), candidate.measured[i]]));
        return [...index.keys()].map((key) => (place.has(key) ? place.get(key) : -1));
      }
      if (candidate.form !== "least squares") return null;
      const entries = [...index].map(() => []);
      candidate.tables.forEach((table, at) => {
        const many = ascending(table.filter((name) => sizes[name] > 1));
        for (const block of subsets(many)) {
          const found = index.get(block.join(","));
          if (found === undefined) continue;
          let outside = 1;
          for (const name of many) if (!block.includes(name)) outside *= sizes[name];
          entries[found].push([at, outside]);
        }
      });
      return entries;
    });
    return { data, families, cells, whole, plans, blocks: index.size, total: index.get(""), one };
  }

  function scalesOf(data, candidate, epsilon, rho) {
    const gaussian = candidate.law === "gaussian";
    return candidate.constants.map((c) => Math.max(gaussian ? Math.sqrt(c / rho) : c / epsilon, LEAST_SCALE));
  }

  function varianceOf(law, scale, cells) {
    if (law === "gaussian") return gaussianVariance(scale);
    return law === "laplace" ? laplaceVariance(scale) : sumZeroVariance(scale, cells);
  }

  // The noise variance of a cell of every family under one mechanism that adds noise.
  function additive(prepared, at, scales) {
    const { data } = prepared, candidate = data.candidates[at], plan = prepared.plans[at];
    const known = new Map();
    const noise = scales.map((scale, i) => {
      const cells = candidate.cells[i], key = `${scale} ${candidate.law === "sum zero" ? cells : ""}`;
      if (!known.has(key)) known.set(key, varianceOf(candidate.law, scale, cells));
      return known.get(key);
    });
    if (candidate.form === "raw") return noise;
    const block = new Float64Array(prepared.blocks);
    for (let a = 0; a < prepared.blocks; a++) {
      if (candidate.form === "blocks") {
        block[a] = plan[a] < 0 ? 0 : noise[plan[a]] * candidate.factors[plan[a]];
      } else {
        let precision = 0;
        for (const [table, outside] of plan[a]) {
          const cells = candidate.cells[table];
          const spread = candidate.law === "sum zero" && cells > 1 ? noise[table] * cells / (cells - 1) : noise[table];
          precision += 1 / Math.max(spread * outside, 1e-300);
        }
        block[a] = 1 / precision;
      }
    }
    if (candidate.form === "least squares" && data.public_n) block[prepared.total] = 0;
    return prepared.families.map((parts) => parts.reduce((sum, [a, share]) => sum + block[a] * share, 0));
  }

  // The hypothetical counts of a family: [value, times] of its distinct rows; uniform ones are all alike.
  function countsOf(prepared, family, n) {
    const { data } = prepared, rows = data.sizes[data.families[family][0]], cells = prepared.cells[family];
    const columns = cells / rows;
    if (!data.own) return { rows, columns: [{ values: [n / cells], times: rows, weight: columns }] };
    const margin = data.margins[family], made = [];
    for (let c = 0; c < columns; c++) {
      const values = [];
      for (let r = 0; r < rows; r++) values.push(margin[r * columns + c] / data.drawn * n);
      made.push({ values, times: 1, weight: 1 });
    }
    return { rows, columns: made };
  }

  const known = (prepared) => !prepared.data.own || prepared.data.margins !== null;

  // Mean squared error of a cell of tables drawn from a posterior tempered by T.
  function drawError(prepared, family, n, temperature) {
    const { rows, columns } = countsOf(prepared, family, n);
    let sum = 0;
    for (const { values, times, weight } of columns) {
      const total = values.reduce((a, b) => a + b, 0) * times;
      const size = rows + total / temperature;
      for (const value of values) {
        const mean = (1 + value / temperature) / size, share = total > 0 ? value / total : 0;
        sum += weight * times * total * total * ((mean - share) ** 2 + mean * (1 - mean) / (size + 1));
      }
    }
    return sum / prepared.cells[family];
  }

  // Half the expected absolute error of clipped noisy counts, over n.
  function variation(prepared, family, n, rmse) {
    if (rmse === 0) return 0;
    let total = 0, errors = 0;
    for (const { values, times, weight } of countsOf(prepared, family, n).columns) {
      for (const value of values) {
        const ratio = value / rmse;
        const error = rmse / Math.sqrt(2 * Math.PI) * (2 - Math.exp(-0.5 * ratio * ratio)) + value * ndtr(-ratio);
        total += weight * times * value;
        errors += weight * times * error;
      }
    }
    return Math.min(total, 0.5 * errors) / n;
  }

  const divergence = (y, x, gamma, psi) => lgamma(y) - gamma - psi * (y - x);

  // Expected divergence of the plug-in posterior from the exact one, nats, by quadrature.
  function expectedKl(prepared, family, n, rmse) {
    const { nodes, weights } = prepared.data, { rows, columns } = countsOf(prepared, family, n);
    const cells = new Map();
    const cell = (value) => {
      if (!cells.has(value)) {
        const x = 1 + value, gamma = lgamma(x), psi = digamma(x);
        let mean = 0, square = 0, kl = 0;
        nodes.forEach((node, i) => {
          const noisy = Math.max(value + rmse * node, 0);
          mean += weights[i] * noisy;
          square += weights[i] * noisy * noisy;
          kl += weights[i] * divergence(1 + noisy, x, gamma, psi);
        });
        cells.set(value, [mean, Math.max(square - mean * mean, 0), kl]);
      }
      return cells.get(value);
    };
    let sum = 0;
    for (const { values, times, weight } of columns) {
      let total = 0, spread = 0, count = 0, kl = 0;
      for (const value of values) {
        const [mean, variance, part] = cell(value);
        total += times * mean;
        spread += times * variance;
        count += times * value;
        kl += times * part;
      }
      spread = Math.sqrt(spread);
      const x = rows + count, gamma = lgamma(x), psi = digamma(x);
      nodes.forEach((node, i) => {
        kl -= weights[i] * divergence(rows + Math.max(total + spread * node, 0), x, gamma, psi);
      });
      sum += weight * kl;
    }
    return sum;
  }

  // (1 - sum of squared shares) / cells: the sampling variance of a cell times 1 / n.
  function sampling(prepared, family) {
    const { data } = prepared, cells = prepared.cells[family];
    if (!data.own) return (1 - 1 / cells) / cells;
    const squares = data.margins[family].reduce((sum, value) => sum + (value / data.drawn) ** 2, 0);
    return (1 - squares) / cells;
  }

  // Every mechanism at one epsilon and n, best first; and which may be recommended.
  function compare(prepared, epsilon, n) {
    const { data } = prepared;
    const rho = data.delta > 0 ? rhoOfEpsilon(epsilon, data.delta) : null;
    const rows = data.candidates.map((candidate, at) => {
      if (candidate.form === "draws") {
        const temperature = candidate.temperature / epsilon;
        const variances = known(prepared)
          ? data.families.map((_, family) => drawError(prepared, family, n, temperature))
          : data.families.map(() => NaN);
        return { at, variances, scales: [], low: NaN, high: NaN };
      }
      const scales = scalesOf(data, candidate, epsilon, rho);
      let low = Infinity, high = 0;
      for (const scale of scales) { low = Math.min(low, scale); high = Math.max(high, scale); }
      return { at, variances: additive(prepared, at, scales), scales, low: low / candidate.grid, high: high / candidate.grid };
    });
    for (const row of rows) {
      const total = row.variances.reduce((sum, variance, family) => sum + variance * prepared.cells[family], 0);
      row.rmse = Math.sqrt(total / prepared.whole);
    }
    const last = (row) => (Number.isNaN(row.rmse) ? Infinity : row.rmse);
    const order = [...rows].sort((one, other) => last(one) - last(other) || one.at - other.at);
    return { epsilon, n, rho, order, best: order.find((row) => data.candidates[row.at].usable) };
  }

  // What every family costs under one row of a comparison.
  function families(prepared, row, epsilon, n) {
    const { data } = prepared, candidate = data.candidates[row.at], able = known(prepared);
    return data.families.map((_, family) => {
      const rmse = Math.sqrt(row.variances[family]), slack = able ? sampling(prepared, family) : NaN;
      const held = candidate.holders ? candidate.holders[family] : null;
      return {
        cells: prepared.cells[family],
        table: held === null ? null : candidate.tables[held],
        scale: held === null ? NaN : row.scales[held] / candidate.grid,
        moved: held === null ? NaN : candidate.moved[held] / (candidate.grid > 1 ? candidate.grid : 1),
        spent: held === null ? NaN : candidate.moved[held] / row.scales[held],
        rmse,
        needed: slack > 0 ? Math.ceil(rmse * rmse / slack) : slack === 0 ? 0 : NaN,
        tv: able ? variation(prepared, family, n, rmse) : NaN,
        kl: able ? expectedKl(prepared, family, n, rmse) : NaN,
      };
    });
  }

  return { prepare, compare, families, lgamma, digamma, ndtr, sumZeroVariance, rhoOfEpsilon };
})();
