// A verifier in JavaScript for two rules: FlashInfer's chain, and greedy.
const mass = (row, token) => row[token] ?? 0;

function sample(weights, u) {
  const sum = weights.reduce((a, b) => a + b, 0);
  let reached = 0;
  let last = 0;
  for (let token = 0; token < weights.length; token++) {
    if (weights[token] > 0) last = token;
    reached += weights[token];
    if (weights[token] > 0 && reached > u * sum) return token;
  }
  return last;
}

function* uniforms(seed) {
  // mulberry32, from a spread seed
  let state = Math.imul(seed + 1, 0x9e3779b1) >>> 0;
  for (;;) {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    yield ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }
}

function chain(problem, numbers, again) {
  const draws = problem.drafts.length === 0 && problem.parents.length > 0;
  const source = typeof numbers === 'number' ? uniforms(numbers) : null;
  const drafts = draws ? problem.parents.map((_, i) => sample(problem.q[i], source.next().value)) : problem.drafts;
  const length = drafts.length;
  const u = source ? [...problem.p, 0].map(() => source.next().value) : numbers.uniforms;
  const given = draws ? [...drafts] : [];
  for (let i = 0; i < length; i++) {
    if (u[i] * mass(problem.q[i], drafts[i]) < mass(problem.p[i], drafts[i])) {
      given.push(drafts[i]);
      continue;
    }
    const rest = problem.p[i].map((a, y) => Math.max(a - problem.q[i][y], 0));
    given.push(sample(rest.some((a) => a > 0) ? rest : problem.p[i], u[again ? i : Math.min(i + 1, length)]));
    return given;
  }
  return [...given, sample(problem.p[length], u[length])];
}

function greedy(problem) {
  const given = [];
  for (const [node, row] of problem.p.entries()) {
    given.push(row.indexOf(Math.max(...row.slice(0, 100_000), ...row.slice(100_000))));
    if (node === problem.drafts.length || given[node] !== problem.drafts[node]) return given;
  }
  return given;
}

export const right = (rule, problem, numbers) => (rule === 'greedy' ? greedy(problem) : chain(problem, numbers, false));
export const reusedUniform = (rule, problem, numbers) => chain(problem, numbers, true);
