// A verifier in C++ for two rules, of tests/verify/vectors: FlashInfer's chain and greedy.
#include "read.hpp"
#include <algorithm>
#include <random>
#include <stdexcept>

static double mass(const Row& row, long token) { return token >= 0 && token < long(row.size()) ? row[token] : 0; }

static long place(const Row& weights, double u) {
  double sum = 0, reached = 0; long last = 0;
  for (double weight : weights) sum += weight;
  for (size_t token = 0; token < weights.size(); token++) {
    if (weights[token] > 0) last = long(token);
    if ((reached += weights[token]) > u * sum && weights[token] > 0) return long(token);
  }
  return last;
}

Tokens verify(const std::string& rule, const Case& problem, const Numbers& numbers) {
  Tokens drafts = problem.drafts, given; std::mt19937_64 source(numbers.seed); std::uniform_real_distribution<double> coin;
  const bool draws = drafts.empty() && !problem.parents.empty();
  if (draws) for (size_t i = 0; i < problem.parents.size(); i++) drafts.push_back(place(problem.q[i], coin(source)));
  const size_t length = drafts.size(); Row u = numbers.uniforms;
  if (!numbers.replay) for (size_t i = 0; i <= length; i++) u.push_back(coin(source));
  if (draws) given = drafts;
  for (size_t i = 0; i <= length; i++) {
    Row left = problem.p[i]; size_t number = std::min(i + 1, length);
    if (rule == "greedy") {
      given.push_back(long(std::max_element(left.begin(), left.end()) - left.begin()));
      if (i == length || given.back() != drafts[i]) return given;
      continue;
    }
    if (i < length) {
      if (u[i] * mass(problem.q[i], drafts[i]) < mass(left, drafts[i])) { given.push_back(drafts[i]); continue; }
      double sum = 0;
      for (size_t y = 0; y < left.size(); y++) sum += left[y] = std::max(left[y] - problem.q[i][y], 0.0);
      if (sum == 0) left = problem.p[i];
#ifdef COIN_AGAIN
      number = i;
#endif
    }
    given.push_back(place(left, u[number])); return given;
  }
  throw std::logic_error("no end");
}

int main(int argc, char** argv) { return run(argc, argv); }
