// Tests a verifier with test vectors, as read.py does. Standard library only, C++17; copy this file.
// Define verify, and call run(argc, argv) from main; its arguments are FOLDER [--level LEVEL] [RULE ...]. Throw if a case is not supported.
// At the level replay numbers.uniforms and numbers.noise are given; at distribution and joint numbers.seed, the seed of one run.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <vector>
using Tokens = std::vector<long>; using Row = std::vector<double>;
struct Rows : std::vector<Row> { const Row& operator[](size_t i) const { return at(i); } };  // no row: throws, as greedy vectors have no q
struct Case { Rows p, q; bool chosen; Tokens drafts, parents; };  // chosen: deterministic draft tokens, without q
struct Numbers { bool replay; Row uniforms; std::vector<Row> noise; long seed; };
Tokens verify(const std::string& rule, const Case& problem, const Numbers& numbers);  // yours
struct Json {
  std::map<std::string, Json> object; std::vector<Json> array; std::string text; double number = 0; bool null = false;
  const Json& operator[](const std::string& name) const { return object.at(name); } };
inline Json parse(std::istream& in) {
  Json value; char c; in >> c;
  if (c == '{' || c == '[') {
    const char end = c == '{' ? '}' : ']';
    while ((in >> std::ws).peek() != end) {
      std::string name; if (end == '}') { name = parse(in).text; in >> c; }
      if (end == '}') value.object[name] = parse(in); else value.array.push_back(parse(in));
      if ((in >> std::ws).peek() == ',') in.get();
    }
    in.get();
  } else if (c == '"') { while (in.get(c) && c != '"') { if (c == '\\') in.get(c); value.text += c; }
  } else if (c == 't' || c == 'f' || c == 'n') {
    value.number = c == 't'; value.null = c == 'n'; while (std::isalpha(in.peek())) in.get();
  } else { in.putback(c); in >> value.number; }
  return value;
}
inline Row row(const std::string& text, size_t n) {  // hexadecimal floats, masses:SEED:SHIFT or noise:SEED
  std::istringstream in(text); Row found; std::string kind, seed, shift;
  if (text.find(':') == std::string::npos) { while (in >> kind) found.push_back(std::stod(kind)); return found; }
  std::getline(in, kind, ':'); std::getline(in, seed, ':'); std::getline(in, shift);
  uint32_t x = std::stoul(seed); int64_t left = 1 << 24;
  for (size_t i = 0; i < n; i++) {
    const int64_t mass = kind == "noise" ? ((x = 1664525u * x + 1013904223u) >> 8) + 1 : (x = 1664525u * x + 1013904223u) >> std::stoi(shift);
    found.push_back(mass / 16777216.0); left -= mass;
  }
  if (kind == "masses") found[std::stoul(seed) % n] += left / 16777216.0;
  return found;
}
inline Tokens tokens(const Json& list) { Tokens all; for (auto& each : list.array) all.push_back(long(each.number)); return all; }
inline Rows rows(const Json& list, size_t n) { Rows all; for (auto& each : list.array) all.push_back(row(each.text, n)); return all; }
inline std::string shown(const Tokens& list) { std::string all; for (long each : list) all += " " + std::to_string(each); return all; }
inline double part(double a, double b) { return a == 0 ? 0 : b == 0 ? HUGE_VAL : a * std::log(a / b); }

inline std::string check(const std::string& rule, const Json& vector) {  // what is wrong, or nothing
  const size_t n = size_t(vector["tokens"].number);
  const Case problem{rows(vector["p"], n), rows(vector["q"], n), vector["q"].null, tokens(vector["drafts"]), tokens(vector["parents"])};
  if (vector["level"].text == "replay") {
    const Tokens given = verify(rule, problem, {true, row(vector["uniforms"].text, 0), rows(vector["noise"], n), 0});
    for (auto& each : vector["expected"].array) if (given == tokens(each)) return "";
    return "gave" + shown(given) + ", expected" + shown(tokens(vector["expected"].array[0]));
  }
  std::map<Tokens, std::pair<double, long>> expected;  // outcome: probability, times seen
  for (auto& each : vector["distribution"].array) {
    const std::string mass = each.array[1].text; const size_t slash = mass.find('/');
    expected[tokens(each.array[0])] = {std::stod(mass.substr(0, slash)) / std::stod(mass.substr(slash + 1)), 0};
  }
  const long runs = long(vector["runs"].number);
  for (long seed = 0; seed < runs; seed++) {
    const Tokens given = verify(rule, problem, {false, {}, {}, seed});
    if (!expected.count(given)) return "gave" + shown(given) + ", which has probability 0"; else expected[given].second++;
  }
  for (auto& [outcome, mass] : expected) {  // Chernoff's bound: a right function fails with probability at most 1e-6
    const double seen = double(mass.second) / runs, far = part(seen, mass.first) + part(1 - seen, 1 - mass.first);
    if (runs * far > std::log(2 * expected.size() / 1e-6)) return "gave" + shown(outcome) + " in " + std::to_string(mass.second) + " of " + std::to_string(runs) + " runs";
  }
  return "";
}
inline int run(int argc, char** argv) {  // exit status: 0 if every vector passed
  if (argc < 2) { std::cerr << "usage: " << argv[0] << " FOLDER [--level replay|distribution|joint] [RULE ...]\n"; return 2; }
  std::set<std::string> wanted, known; std::string level; long all = 0, failed = 0;
  for (int i = 2; i < argc; i++) if (std::string(argv[i]) == "--level" && i + 1 < argc) level = argv[++i]; else wanted.insert(argv[i]);
  if (!std::filesystem::is_directory(argv[1])) { std::cerr << "folder " << argv[1] << " not found: pass the folder `files` that `ot-draft vectors show` prints\n"; return 1; }
  if (!level.empty() && level != "replay" && level != "distribution" && level != "joint") {
    std::cerr << "--level must be replay, distribution or joint, got " << level << "\n"; return 1; }
  for (auto& file : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream in(file.path()); const Json corpus = parse(in);
    if (corpus.object.count("vectors")) known.insert(corpus["rule"].text); else continue;
    if (!wanted.empty() && !wanted.count(corpus["rule"].text)) continue;
    for (auto& vector : corpus["vectors"].array) {
      if (!level.empty() && vector["level"].text != level) continue;
      std::string wrong; all++; try { wrong = check(corpus["rule"].text, vector); }
      catch (const std::exception& e) { if (vector["level"].text != "replay" || !vector["error_allowed"].number) wrong = std::string("crashed, ") + e.what(); }
      if (!wrong.empty()) { failed++; std::cout << vector["id"].text << " (" << vector["level"].text << ", " << vector["category"].text << "): " << wrong << "\n"; }
    }
  }
  for (auto& name : wanted) if (!known.count(name)) {
    std::cerr << "RULE must be one of"; for (auto& each : known) std::cerr << " " << each; std::cerr << ", got " << name << ". Correct the name.\n"; return 2; }
  std::cout << all << " vectors, " << failed << " failed\n"; return failed > 0 || all == 0;
}
