// Tests a verifier with test vectors, as read.py does. Node's own modules only; copy this file.
//
//     node read.mjs FOLDER MODULE:FUNCTION [RULE ...]
//
// FUNCTION(rule, problem, numbers) returns the emitted tokens; it throws if a case is not supported. problem: p, q (null for deterministic draft tokens),
// drafts, parents. numbers: {uniforms, noise} at the level replay; the seed of one run, a number, at distribution and joint.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const ALARM = 1e-6; // max. probability that a right function fails one vector of the levels distribution and joint

/** A hexadecimal float: [-]0xH.HHHp[-]E, or nan. */
function float(text) {
  const parts = /^(-?)0x([01])\.?([0-9a-f]*)p(-?\d+)$/.exec(text);
  if (!parts) return NaN;
  const [, sign, whole, fraction, power] = parts;
  const mantissa = Number(`0x${whole}${fraction}`) * 2 ** (-4 * fraction.length);
  return (sign ? -1 : 1) * mantissa * 2 ** Number(power);
}

/** Numbers of a row: hexadecimal floats, or masses:SEED:SHIFT or noise:SEED, from a linear congruential generator. */
export function row(text, n) {
  const [kind, seed, shift] = text.split(':');
  if (seed === undefined) return text.split(' ').filter(Boolean).map(float);
  const found = [];
  let x = Number(seed) >>> 0;
  let left = 2 ** 24;
  for (let i = 0; i < n; i++) {
    x = (Math.imul(1664525, x) + 1013904223) >>> 0;
    const mass = kind === 'noise' ? (x >>> 8) + 1 : x >>> Number(shift);
    found.push(mass / 2 ** 24);
    left -= mass;
  }
  if (kind === 'masses') found[Number(seed) % n] += left / 2 ** 24;
  return found;
}

function problemOf(vector) {
  const rows = (texts) => texts && texts.map((text) => row(text, vector.tokens));
  return { p: rows(vector.p), q: rows(vector.q), drafts: [...vector.drafts], parents: [...vector.parents] };
}

function replayed(verify, rule, vector) {
  const numbers = { uniforms: row(vector.uniforms, 0), noise: vector.noise.map((text) => row(text, vector.tokens)) };
  let given;
  try {
    given = [...verify(rule, problemOf(vector), numbers)].join(' ');
  } catch (error) {
    return vector.error_allowed ? null : `crashed, ${error}`;
  }
  const wanted = vector.expected.map((tokens) => tokens.join(' '));
  return wanted.includes(given) ? null : `gave ${given}, expected ${wanted.join(' or ')}`;
}

function counted(verify, rule, vector) {
  const seen = new Map(vector.distribution.map(([tokens]) => [tokens.join(' '), 0]));
  for (let seed = 0; seed < vector.runs; seed++) {
    const given = [...verify(rule, problemOf(vector), seed)].join(' ');
    if (!seen.has(given)) return `gave ${given}, which has probability 0`;
    seen.set(given, seen.get(given) + 1);
  }
  const part = (a, b) => (a === 0 ? 0 : b === 0 ? Infinity : a * Math.log(a / b));
  for (const [tokens, text] of vector.distribution) {
    const [above, below] = text.split('/').map(Number);
    const count = seen.get(tokens.join(' '));
    const [a, b] = [count / vector.runs, above / below];
    if (vector.runs * (part(a, b) + part(1 - a, 1 - b)) > Math.log((2 * vector.distribution.length) / ALARM))
      return `gave ${tokens.join(' ')} in ${count} of ${vector.runs} runs, expected ${text} of them`;
  }
  return null;
}

/** [id (level, category), failure or null] of every vector of these rules, or of all rules if none is given. */
export function* failures(verify, folder, rules = []) {
  const files = readdirSync(folder).filter((file) => file.endsWith('.json')).sort();
  const all = files.map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8'))).filter(({ vectors }) => vectors);
  const unknown = rules.find((name) => !all.some(({ rule }) => rule === name));
  if (unknown) throw new RangeError(`RULE must be one of ${all.map(({ rule }) => rule).join(' ')}, got ${unknown}. Correct the name.`);
  for (const { rule, vectors } of all) {
    if (rules.length && !rules.includes(rule)) continue;
    for (const vector of vectors)
      yield [`${vector.id} (${vector.level}, ${vector.category})`, (vector.level === 'replay' ? replayed : counted)(verify, rule, vector)];
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(resolve(process.argv[1])).href) {
  const [folder, target, ...rules] = process.argv.slice(2);
  if (!existsSync(folder)) {
    console.error(`folder ${folder} not found: pass the folder \`files\` that \`ot-draft vectors show\` prints`);
    process.exit(1);
  }
  const at = target.lastIndexOf(':');
  const module = await import(pathToFileURL(resolve(target.slice(0, at))).href);
  const outcomes = [...failures(module[target.slice(at + 1)], folder, rules)];
  const bad = outcomes.filter(([, wrong]) => wrong);
  for (const [id, wrong] of bad) console.log(`${id}: ${wrong}`);
  console.log(`${outcomes.length} vectors, ${bad.length} failed`);
  process.exitCode = bad.length || !outcomes.length ? 1 : 0;
}
