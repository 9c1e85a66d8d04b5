// A verifier in C++ for two rules of the test vectors: greedy, and FlashInfer's chain.
//   g++ -std=c++17 -O1 -I readers verifier.cpp -o verifier && ./verifier corpus flashinfer-chain greedy
#include "read.hpp"
#include <algorithm>
#include <random>
#include <stdexcept>

// Probability of a token; 0 for an id outside the vocabulary.
static double probability(const Row& row, long token) {
  return token >= 0 && token < long(row.size()) ? row[token] : 0;
}

// The first token, in the order of ids, at which the running sum of the weights is above u times their sum.
static long sample(const Row& weights, double u) {
  double sum = 0, reached = 0;
  long last = 0;
  for (double weight : weights) sum += weight;
  for (size_t token = 0; token < weights.size(); token++) {
    if (weights[token] == 0) continue;
    last = long(token);
    if ((reached += weights[token]) > u * sum) return last;
  }
  return last;
}

Tokens verify(const std::string& rule, const Case& problem, const Numbers& numbers) {
  std::mt19937_64 source(numbers.seed);
  std::uniform_real_distribution<double> uniform;
  Tokens drafts = problem.drafts, emitted;
  if (drafts.empty() && !problem.parents.empty()) {  // level joint: sample the draft tokens, and return them first
    for (size_t i = 0; i < problem.parents.size(); i++) drafts.push_back(sample(problem.q[i], uniform(source)));
    emitted = drafts;
  }
  const size_t length = drafts.size();
  Row u = numbers.uniforms;  // level replay: the random numbers are given
  if (!numbers.replay)
    for (size_t i = 0; i <= length; i++) u.push_back(uniform(source));

  for (size_t i = 0; i <= length; i++) {
    Row weights = problem.p[i];
    if (rule == "greedy") {
      emitted.push_back(long(std::max_element(weights.begin(), weights.end()) - weights.begin()));
      if (i == length || emitted.back() != drafts[i]) return emitted;
      continue;
    }
    size_t number = std::min(i + 1, length);  // the convention: after i accepted draft tokens
    if (i < length) {
      if (u[i] * probability(problem.q[i], drafts[i]) < probability(weights, drafts[i])) {
        emitted.push_back(drafts[i]);
        continue;
      }
      double sum = 0;
      for (size_t y = 0; y < weights.size(); y++) sum += weights[y] = std::max(weights[y] - problem.q[i][y], 0.0);
      if (sum == 0) weights = problem.p[i];
#ifdef REUSED_UNIFORM  // a bug that the vectors find: the number that rejected the draft token samples the last token
      number = i;
#endif
    }
    emitted.push_back(sample(weights, u[number]));
    return emitted;
  }
  throw std::logic_error("unreachable");
}

int main(int argc, char** argv) {  // vectors of rules that verify does not implement are skipped
  const std::set<std::string> implemented{"flashinfer-chain", "greedy"};
  std::vector<std::string> kept, rules;
  for (int i = 0; i < argc; i++) {
    const std::string word = argv[i];
    if (i < 2 || word == "--level" || std::string(argv[i - 1]) == "--level") kept.push_back(word);
    else if (implemented.count(word)) rules.push_back(word);
    else std::cerr << word << ": skipped, since this verifier implements flashinfer-chain and greedy only\n";
  }
  if (argc > 1 && kept.size() == size_t(argc)) {
    std::cerr << "vectors of flashinfer-chain and greedy; other rules are skipped, since this verifier does not implement them\n";
    rules.assign(implemented.begin(), implemented.end());
  }
  if (argc > 1 && rules.empty()) return 2;
  kept.insert(kept.end(), rules.begin(), rules.end());
  std::vector<char*> words;
  for (std::string& word : kept) words.push_back(word.data());
  return run(int(words.size()), words.data());
}
