// Tests a verifier with test vectors, as read.py does. Standard library only; copy this file.
// Put it next to main.rs with `mod read;`, and call `std::process::exit(read::run(verify))` in main; arguments are FOLDER [--level LEVEL] [RULE ...].
// verify(rule, case, numbers) returns the emitted tokens, or an error if a case is not supported. See read.py for the arguments.
use std::{collections::HashMap, env, fs, iter};
pub struct Case { pub p: Vec<Vec<f64>>, pub q: Option<Vec<Vec<f64>>>, pub drafts: Vec<i64>, pub parents: Vec<i64> }
pub enum Numbers { Replay { uniforms: Vec<f64>, noise: Vec<Vec<f64>> }, Seed(u64) }
pub type Verify = fn(&str, &Case, &Numbers) -> Result<Vec<i64>, String>;
pub enum Json { Null, Number(f64), Text(String), List(Vec<Json>), Object(HashMap<String, Json>) }
impl Json {
    fn get(&self, name: &str) -> &Json { if let Json::Object(all) = self { all.get(name).unwrap_or(&Json::Null) } else { &Json::Null } }
    fn list(&self) -> &[Json] { if let Json::List(all) = self { all } else { &[] } }
    fn text(&self) -> &str { if let Json::Text(text) = self { text } else { "" } }
    fn number(&self) -> f64 { if let Json::Number(number) = self { *number } else { 0.0 } }
    fn tokens(&self) -> Vec<i64> { self.list().iter().map(|each| each.number() as i64).collect() }
    fn rows(&self, n: usize) -> Vec<Vec<f64>> { self.list().iter().map(|each| row(each.text(), n)).collect() }
}
fn parse(s: &[u8], at: &mut usize) -> Json { // true and false are 1 and 0
    let skip = |at: &mut usize| while b" \n\r\t,:".contains(&s[*at]) { *at += 1 };
    skip(at); *at += 1;
    match s[*at - 1] {
        b'[' => { let mut all = vec![]; loop { skip(at); if s[*at] == b']' { *at += 1; return Json::List(all) } all.push(parse(s, at)); } }
        b'{' => { let mut all = HashMap::new(); loop {
            skip(at); if s[*at] == b'}' { *at += 1; return Json::Object(all) }
            let name = parse(s, at).text().to_string(); all.insert(name, parse(s, at));
        } }
        b'"' => { let mut text = vec![]; while s[*at] != b'"' { if s[*at] == b'\\' { *at += 1 } text.push(s[*at]); *at += 1; }
            *at += 1; Json::Text(String::from_utf8(text).unwrap()) }
        b't' => { *at += 3; Json::Number(1.0) }
        b'f' => { *at += 4; Json::Number(0.0) }
        b'n' => { *at += 3; Json::Null }
        _ => { let start = *at - 1; while b"+-.eE0123456789".contains(&s[*at]) { *at += 1 }
            Json::Number(std::str::from_utf8(&s[start..*at]).unwrap().parse().unwrap()) }
    }
}
fn float(text: &str) -> f64 { // a hexadecimal float: [-]0xH.HHHp[-]E, or nan
    let (sign, rest) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let Some((digits, power)) = rest.strip_prefix("0x").and_then(|rest| rest.split_once('p')) else { return f64::NAN };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa = u64::from_str_radix(&format!("{whole}{fraction}"), 16).unwrap() as f64;
    sign * mantissa * 2f64.powi(power.parse::<i32>().unwrap() - 4 * fraction.len() as i32)
}
fn row(text: &str, n: usize) -> Vec<f64> { // hexadecimal floats, masses:SEED:SHIFT or noise:SEED
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() == 1 { return text.split_whitespace().map(float).collect() }
    let (seed, shift) = (parts[1].parse::<u32>().unwrap(), parts.get(2).map_or(8, |shift| shift.parse().unwrap()));
    let step = |x: &u32| Some(x.wrapping_mul(1664525).wrapping_add(1013904223)); let states = iter::successors(step(&seed), step).take(n);
    let mut masses: Vec<i64> = states.map(|x| (x >> shift) as i64 + (parts[0] == "noise") as i64).collect();
    if parts[0] == "masses" { masses[seed as usize % n] += (1 << 24) - masses.iter().sum::<i64>() }
    masses.iter().map(|&mass| mass as f64 / 16777216.0).collect()
}
fn check(verify: Verify, rule: &str, vector: &Json) -> Result<(), String> { // an error: what is wrong
    let n = vector.get("tokens").number() as usize; let q = if let Json::Null = vector.get("q") { None } else { Some(vector.get("q").rows(n)) };
    let case = Case { p: vector.get("p").rows(n), q, drafts: vector.get("drafts").tokens(), parents: vector.get("parents").tokens() };
    if vector.get("level").text() == "replay" {
        let numbers = Numbers::Replay { uniforms: row(vector.get("uniforms").text(), 0), noise: vector.get("noise").rows(n) };
        return match verify(rule, &case, &numbers) {
            Err(_) if vector.get("error_allowed").number() == 1.0 => Ok(()),
            Err(error) => Err(format!("crashed, {error}")),
            Ok(given) if vector.get("expected").list().iter().any(|each| each.tokens() == given) => Ok(()),
            Ok(given) => Err(format!("gave {given:?}, expected {:?}", vector.get("expected").list()[0].tokens())),
        };
    }
    let (runs, expected) = (vector.get("runs").number(), vector.get("distribution").list());
    let mut seen: HashMap<Vec<i64>, f64> = expected.iter().map(|each| (each.list()[0].tokens(), 0.0)).collect();
    for seed in 0..runs as u64 {
        let given = verify(rule, &case, &Numbers::Seed(seed))?;
        *seen.get_mut(&given).ok_or(format!("gave {given:?}, which has probability 0"))? += 1.0;
    }
    let part = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a * (a / b).ln() };
    for each in expected { // Chernoff's bound: a right function fails with probability at most 1e-6
        let (above, below) = each.list()[1].text().split_once('/').unwrap();
        let (tokens, b) = (each.list()[0].tokens(), above.parse::<f64>().unwrap() / below.parse::<f64>().unwrap());
        let a = seen[&tokens] / runs; if runs * (part(a, b) + part(1.0 - a, 1.0 - b)) > (2.0 * expected.len() as f64 / 1e-6).ln() {
            return Err(format!("gave {tokens:?} in {} of {runs} runs, expected {b} of them", seen[&tokens]));
        }
    }
    Ok(())
}
pub fn run(verify: Verify) -> i32 { // exit status: 0 if every vector passed
    let (mut arguments, mut known, mut all, mut failed) = (env::args().skip(1).collect::<Vec<_>>(), vec![], 0, 0);
    let level = arguments.windows(2).position(|two| two[0] == "--level").map(|i| arguments.drain(i..i + 2).nth(1).unwrap());
    if arguments.is_empty() { eprintln!("usage: FOLDER [--level replay|distribution|joint] [RULE ...]"); return 2 }
    let Ok(files) = fs::read_dir(&arguments[0]) else {
        eprintln!("folder {} not found: pass the folder `files` that `ot-draft vectors show` prints", arguments[0]); return 1 };
    if let Some(level) = level.as_ref().filter(|level| !["replay", "distribution", "joint"].contains(&level.as_str())) {
        eprintln!("--level must be replay, distribution or joint, got {level}"); return 1 }
    for file in files {
        let corpus = parse(&fs::read(file.unwrap().path()).unwrap(), &mut 0); let rule = corpus.get("rule").text();
        if !rule.is_empty() { known.push(rule.to_string()) } if arguments.len() > 1 && !arguments[1..].iter().any(|each| each == rule) { continue }
        for vector in corpus.get("vectors").list() {
            if level.as_ref().is_some_and(|level| vector.get("level").text() != level) { continue }
            all += 1; let [id, level, category] = ["id", "level", "category"].map(|name| vector.get(name).text());
            if let Err(wrong) = check(verify, rule, vector) { failed += 1; println!("{id} ({level}, {category}): {wrong}") }
        }
    }
    if let Some(name) = arguments[1..].iter().find(|name| !known.contains(name)) {
        eprintln!("RULE must be one of {}, got {name}. Correct the name.", known.join(" ")); return 2 }
    println!("{all} vectors, {failed} failed");
    (failed > 0 || all == 0) as i32
}
