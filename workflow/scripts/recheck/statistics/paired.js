// Two methods compared on the seeds and folds that both have, with the digits of paired.py, which explains each step.
// A method's values are a Map: seed (number) → array with the value of every fold, or with a single value.
"use strict";

const paired = (() => {
  const CONFIDENCE = 0.95;
  const CASES = 10000;
  const BOOTSTRAP_SEED = 1;
  const FLIP_SEED = 2;
  const ROUNDING = 1e-9;

  // `tails` are the shares that paired.py's `tail` gives, by number of seeds.
  function compare(first, second, tails) {
    const { differences, probability, pairs } = pair(first, second);
    const seeds = differences.length;
    const [low, high] = interval(differences, tails);
    return {
      difference: mean(differences), low, high, confidence: confidence(seeds), probability, p: pValue(differences),
      seeds, pairs,
    };
  }

  function pair(first, second) {
    const differences = [];
    let wins = 0;
    let pairs = 0;
    const seeds = [...first.keys()].filter((seed) => second.has(seed)).sort((a, b) => a - b);
    for (const seed of seeds) {
      let one = first.get(seed);
      let two = second.get(seed);
      if (one.length !== two.length) [one, two] = [[mean(one)], [mean(two)]];
      const folds = one.map((value, fold) => value - two[fold]);
      if (!folds.length || !folds.every(Number.isFinite)) continue;
      differences.push(mean(folds));
      for (const fold of folds) wins += fold > 0 ? 1 : fold === 0 ? 0.5 : 0;
      pairs += folds.length;
    }
    return { differences, probability: pairs ? wins / pairs : NaN, pairs };
  }

  function mean(values) {
    let total = 0;
    for (const value of values) total += value;
    return values.length ? total / values.length : NaN;
  }

  function confidence(seeds) {
    return seeds > 1 ? Math.min(CONFIDENCE, 1 - 2 ** (1 - seeds)) : NaN;
  }

  function interval(differences, tails) {
    const seeds = differences.length;
    if (seeds < 2) return [NaN, NaN];
    const cases = resamples(seeds).map(({ counts, weight }) => ({ mean: weighted(counts, differences), weight }));
    const total = cases.reduce((sum, { weight }) => sum + weight, 0);
    const cut = (tails[seeds] ?? 0) * total;
    cases.sort((a, b) => a.mean - b.mean);
    const first = (ordered) => {
      let below = 0;
      return ordered.find(({ weight }) => (below += weight) >= cut).mean;
    };
    return [first(cases), first([...cases].reverse())];
  }

  function pValue(differences) {
    const seeds = differences.length;
    if (seeds < 2) return NaN;
    const least = Math.abs(mean(differences)) - ROUNDING * mean(differences.map(Math.abs));
    const exact = 2 ** seeds <= CASES;
    const random = mulberry32(FLIP_SEED);
    const cases = exact ? 2 ** seeds : CASES;
    let extreme = 0;
    for (let number = 0; number < cases; number++) {
      const signs = differences.map((_, bit) => ((exact ? (number >> bit) & 1 : random() < 0.5) ? -1 : 1));
      if (Math.abs(weighted(signs, differences)) >= least) extreme++;
    }
    return exact ? extreme / cases : (extreme + 1) / (cases + 1);
  }

  // How often each seed is drawn, and in how many orders: all cases, or random ones if there are too many.
  function resamples(seeds) {
    if (binomial(2 * seeds - 1, seeds) <= CASES) {
      const cases = [];
      const fill = (counts, left, orders) => {
        if (counts.length === seeds - 1) {
          cases.push({ counts: [...counts, left], weight: orders });
          return;
        }
        for (let count = 0; count <= left; count++) fill([...counts, count], left - count, orders * binomial(left, count));
      };
      fill([], seeds, 1);
      return cases;
    }
    const random = mulberry32(BOOTSTRAP_SEED);
    return Array.from({ length: CASES }, () => {
      const counts = new Array(seeds).fill(0);
      for (let draw = 0; draw < seeds; draw++) counts[Math.floor(random() * seeds)]++;
      return { counts, weight: 1 };
    });
  }

  function binomial(n, k) {
    let result = 1;
    for (let step = 1; step <= k; step++) result = (result * (n - k + step)) / step;
    return Math.round(result);
  }

  function weighted(weights, differences) {
    let total = 0;
    differences.forEach((difference, seed) => (total += weights[seed] * difference));
    return total / differences.length;
  }

  function mulberry32(seed) {
    let a = seed;
    return () => {
      a = (a + 0x6d2b79f5) | 0;
      let t = Math.imul(a ^ (a >>> 15), a | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  return { compare, mulberry32 };
})();

if (typeof module !== "undefined") module.exports = paired;
