// A verifier in Rust for two rules: FlashInfer's chain, and greedy.
mod read;
use read::{Case, Numbers};

struct Uniforms(u64);
impl Uniforms {
    fn next(&mut self) -> f64 { // splitmix64
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn mass(row: &[f64], token: i64) -> f64 {
    if token < 0 { 0.0 } else { row.get(token as usize).copied().unwrap_or(0.0) }
}

fn sample(weights: &[f64], u: f64) -> i64 {
    let (sum, mut reached, mut last) = (weights.iter().sum::<f64>(), 0.0, 0);
    for (token, &weight) in weights.iter().enumerate() {
        reached += weight;
        if weight > 0.0 {
            last = token;
            if reached > u * sum { break }
        }
    }
    last as i64
}

fn greedy(case: &Case) -> Vec<i64> {
    let mut given = vec![];
    for (node, row) in case.p.iter().enumerate() {
        let best = (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
        given.push(best as i64);
        if node == case.drafts.len() || given[node] != case.drafts[node] { break }
    }
    given
}

fn verify(rule: &str, case: &Case, numbers: &Numbers) -> Result<Vec<i64>, String> {
    if rule == "greedy" { return Ok(greedy(case)) }
    let again = std::env::var("REUSED_UNIFORM").is_ok();
    let q = case.q.as_ref().ok_or("q is needed")?;
    let (mut drafts, mut given) = (case.drafts.clone(), vec![]);
    let u: Vec<f64> = match numbers {
        Numbers::Replay { uniforms, .. } => uniforms.clone(),
        Numbers::Seed(seed) => {
            let mut source = Uniforms(seed.wrapping_mul(0xd1342543de82ef95));
            if drafts.is_empty() && !case.parents.is_empty() {
                drafts = (0..case.parents.len()).map(|i| sample(&q[i], source.next())).collect();
                given = drafts.clone();
            }
            (0..=drafts.len()).map(|_| source.next()).collect()
        }
    };
    let length = drafts.len();
    for (i, &draft) in drafts.iter().enumerate() {
        if u[i] * mass(&q[i], draft) < mass(&case.p[i], draft) { given.push(draft); continue }
        let rest: Vec<f64> = case.p[i].iter().zip(&q[i]).map(|(a, b)| (a - b).max(0.0)).collect();
        let left = if rest.iter().any(|&a| a > 0.0) { &rest } else { &case.p[i] };
        given.push(sample(left, u[if again { i } else { (i + 1).min(length) }]));
        return Ok(given);
    }
    given.push(sample(&case.p[length], u[length]));
    Ok(given)
}

fn main() { std::process::exit(read::run(verify)) }
