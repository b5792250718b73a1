//! Expressions of bounds: arithmetic over metrics of cases, computed within one block.
//!
//! `payload_rate(cp-auto) / max(payload_rate(iperf3-*), payload_rate(memory-8))`

use std::collections::BTreeSet;

use super::nearest;
use crate::metric::{ABOUT, Metric};

/// A parsed expression. All cases that it names exist in the study.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number.
    Number(f64),
    /// A metric of one case.
    Metric(Metric, String),
    /// The largest of several values.
    Max(Vec<Expression>),
    /// The smallest of several values.
    Min(Vec<Expression>),
    /// Two expressions and an operator.
    Binary(Box<Expression>, Operator, Box<Expression>),
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

/// An error in an expression, with a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// The error message.
    pub problem: String,
    /// The most similar correct name.
    pub meant: Option<String>,
}

impl Expression {
    /// Parses `text`. `cases` are the ids that it may contain.
    ///
    /// # Errors
    /// The first error.
    pub fn parse(text: &str, cases: &[&str]) -> Result<Expression, ExpressionError> {
        let mut parser = Parser { rest: text, cases, depth: 0, operators: 0 };
        let expression = parser.sum()?;
        parser.skip_space();
        if parser.rest.is_empty() { Ok(expression) } else { Err(parser.unexpected()) }
    }

    /// The value of the expression; `figure` returns the value of a case's metric. `None` if any needed value
    /// is missing, or if the result isn't finite.
    pub fn evaluate(&self, figure: &impl Fn(Metric, &str) -> Option<f64>) -> Option<f64> {
        let value = match self {
            Expression::Number(value) => *value,
            Expression::Metric(metric, case) => figure(*metric, case)?,
            Expression::Max(parts) => fold(parts, figure, f64::max)?,
            Expression::Min(parts) => fold(parts, figure, f64::min)?,
            Expression::Binary(left, operator, right) => {
                operator.apply(left.evaluate(figure)?, right.evaluate(figure)?)
            }
        };
        value.is_finite().then_some(value)
    }

    /// The ids of the cases in the expression.
    pub fn cases(&self) -> BTreeSet<&str> {
        self.figures().into_iter().map(|(_, case)| case).collect()
    }

    /// The pairs of a metric and a case in the expression.
    pub fn figures(&self) -> BTreeSet<(Metric, &str)> {
        match self {
            Expression::Number(_) => BTreeSet::new(),
            Expression::Metric(metric, case) => BTreeSet::from([(*metric, case.as_str())]),
            Expression::Max(parts) | Expression::Min(parts) => {
                parts.iter().flat_map(Expression::figures).collect()
            }
            Expression::Binary(left, _, right) => left.figures().into_iter().chain(right.figures()).collect(),
        }
    }
}

impl Operator {
    fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
        }
    }
}

fn fold(
    parts: &[Expression],
    figure: &impl Fn(Metric, &str) -> Option<f64>,
    better: fn(f64, f64) -> f64,
) -> Option<f64> {
    let values = parts.iter().map(|part| part.evaluate(figure)).collect::<Option<Vec<f64>>>()?;
    values.into_iter().reduce(better)
}

type Parsed<T> = Result<T, ExpressionError>;

/// The greatest depth of nesting: more than any real expression has, but small enough for the stack.
const DEEPEST: u32 = 50;
/// The greatest number of operators: more than any real expression has. Each operator makes the tree deeper,
/// and the stack is limited.
const MOST_OPERATORS: u32 = 500;

struct Parser<'a> {
    rest: &'a str,
    cases: &'a [&'a str],
    depth: u32,
    operators: u32,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Parsed<Expression> {
        self.chain(&[('+', Operator::Add), ('-', Operator::Subtract)], Parser::product)
    }

    fn product(&mut self) -> Parsed<Expression> {
        self.chain(&[('*', Operator::Multiply), ('/', Operator::Divide)], Parser::atom)
    }

    fn chain(
        &mut self,
        operators: &[(char, Operator)],
        part: fn(&mut Self) -> Parsed<Expression>,
    ) -> Parsed<Expression> {
        let mut left = part(self)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.take(*sign)) {
            self.operators += 1;
            if self.operators > MOST_OPERATORS {
                return Err(wrong(format!("has more than {MOST_OPERATORS} operators")));
            }
            left = Expression::Binary(Box::new(left), *operator, Box::new(part(self)?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Parsed<Expression> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(wrong("is nested too deeply"));
        }
        let value = self.inner_atom();
        self.depth -= 1;
        value
    }

    fn inner_atom(&mut self) -> Parsed<Expression> {
        if self.take('(') {
            let inner = self.sum()?;
            return self.expect(')').map(|()| inner);
        }
        let word = self.word();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word
                .parse()
                .map(Expression::Number)
                .map_err(|_| wrong(format!("{word:?} is not a number")));
        }
        match word {
            "" => Err(self.unexpected()),
            "max" => self.parts().map(Expression::Max),
            "min" => self.parts().map(Expression::Min),
            name => match self.metrics(name)?.as_slice() {
                [one] => Ok(one.clone()),
                several => Err(wrong(format!(
                    "{name}(...) matches {} cases; only max(...) and min(...) take several cases",
                    several.len()
                ))),
            },
        }
    }

    /// Parses the arguments of max or min. A metric whose argument is a pattern gives one expression for each
    /// matching case.
    fn parts(&mut self) -> Parsed<Vec<Expression>> {
        self.expect('(')?;
        let mut parts = Vec::new();
        loop {
            let before = self.rest;
            let word = self.word();
            let is_metric = ABOUT.iter().any(|about| about.name == word);
            let several = if is_metric { self.metrics(word)? } else { Vec::new() };
            self.skip_space();
            if several.is_empty() || !self.rest.starts_with([',', ')']) {
                self.rest = before;
                parts.push(self.sum()?);
            } else {
                parts.extend(several);
            }
            if !self.take(',') {
                break;
            }
        }
        self.expect(')').map(|()| parts)
    }

    /// Parses the argument of the metric with this name. Returns one expression for each case that the argument
    /// matches.
    fn metrics(&mut self, name: &str) -> Parsed<Vec<Expression>> {
        let Some(about) = ABOUT.iter().find(|about| about.name == name) else {
            let names = ABOUT.iter().map(|about| about.name).chain(["max", "min"]);
            return Err(named(format!("`{name}` is not a metric"), name, names));
        };
        self.expect('(')?;
        let (pattern, rest) = self.rest.split_once(')').ok_or_else(|| wrong("a `(` has no `)`"))?;
        self.rest = rest;
        let pattern = pattern.trim();
        let cases = self.cases.iter().filter(|case| matches(pattern, case));
        let found: Vec<_> = cases.map(|case| Expression::Metric(about.metric, (*case).to_owned())).collect();
        if found.is_empty() {
            return Err(named(format!("`{pattern}` is not a case"), pattern, self.cases.iter().copied()));
        }
        Ok(found)
    }

    fn word(&mut self) -> &'a str {
        self.skip_space();
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn take(&mut self, sign: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, sign: char) -> Parsed<()> {
        if self.take(sign) { Ok(()) } else { Err(wrong(format!("expected `{sign}` before {:?}", self.rest))) }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn unexpected(&self) -> ExpressionError {
        if self.rest.is_empty() {
            wrong("ends too early")
        } else {
            wrong(format!("{:?} is unexpected", self.rest))
        }
    }
}

/// True if the name matches the pattern. `*` matches any text; several stars are allowed.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let (last, middle) = parts.split_last().expect("split gives at least one part");
    for part in middle {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

fn wrong(problem: impl Into<String>) -> ExpressionError {
    ExpressionError { problem: problem.into(), meant: None }
}

fn named<'n>(problem: String, name: &str, names: impl IntoIterator<Item = &'n str>) -> ExpressionError {
    ExpressionError { problem, meant: nearest(name, names).map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CASES: [&str; 4] = ["cp-1", "cp-8", "iperf3-1", "scp"];

    fn figure(metric: Metric, case: &str) -> Option<f64> {
        let base = match case {
            "cp-1" => 6.0,
            "cp-8" => 9.0,
            "iperf3-1" => 10.0,
            _ => return None,
        };
        Some(if metric == Metric::Seconds { base / 10.0 } else { base })
    }

    fn value(text: &str) -> Option<f64> {
        Expression::parse(text, &CASES).unwrap().evaluate(&figure)
    }

    #[test]
    fn computes_with_precedence() {
        assert_eq!(value("1 + 2 * 3 - 4 / 2"), Some(5.0));
        assert_eq!(value("(1 + 2) * 3"), Some(9.0));
        assert_eq!(value("10 - 3 - 2"), Some(5.0));
        assert_eq!(value("payload_rate(cp-8) / payload_rate(iperf3-1)"), Some(0.9));
        assert_eq!(value("(seconds(cp-8) - seconds(cp-1)) * 1000").map(f64::round), Some(300.0));
        assert_eq!(value("transaction_rate(cp-8) + p99_us(cp-8) - p50_us(cp-8)"), Some(9.0));
    }

    #[test]
    fn patterns_spread_inside_max_and_min() {
        assert_eq!(value("max(payload_rate(cp-*))"), Some(9.0));
        assert_eq!(value("min(payload_rate(cp-*), 7 - 2, payload_rate( iperf3-1 ))"), Some(5.0));
        assert_eq!(value("max(payload_rate(cp-1) * 2, payload_rate(*-1))"), Some(12.0));
        let error = Expression::parse("payload_rate(cp-*)", &CASES).unwrap_err();
        assert!(error.problem.contains("2 cases"), "{error:?}");
    }

    #[test]
    fn a_missing_figure_or_a_division_by_zero_is_no_value() {
        assert_eq!(value("payload_rate(scp)"), None);
        assert_eq!(value("max(payload_rate(cp-1), payload_rate(scp))"), None);
        assert_eq!(value("1 / (2 - 2)"), None);
    }

    #[test]
    fn names_the_nearest() {
        let error = |text: &str| Expression::parse(text, &CASES).unwrap_err();
        assert_eq!(error("payload_rat(cp-1)").meant.as_deref(), Some("payload_rate"));
        assert_eq!(error("payload_rate(cp_1)").meant.as_deref(), Some("cp-1"));
        assert_eq!(error("payload_rate(zebra)").meant, None);
        assert!(error("1 +").problem.contains("ends too early"));
        assert!(error("1 2").problem.contains("unexpected"));
        assert!(error(&"(".repeat(1000)).problem.contains("deeply"));
        assert!(error(&"1+".repeat(500_000)).problem.contains("500 operators"));
        assert_eq!(value(&format!("1{}", " + 1".repeat(500))), Some(501.0));
    }

    #[test]
    fn lists_the_cases_that_it_names() {
        let expression = Expression::parse("max(seconds(cp-*)) / seconds(scp)", &CASES).unwrap();
        assert_eq!(expression.cases().into_iter().collect::<Vec<_>>(), ["cp-1", "cp-8", "scp"]);
    }

    #[test]
    fn stars_match_anywhere() {
        assert!(matches("*", "x") && matches("a*c*e", "abcde") && matches("cp-*", "cp-"));
        assert!(!matches("a*c", "abcd") && !matches("cp", "cp-1") && !matches("a*a", "a"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9_(),*/+. -]{0,60}") {
            let _ = Expression::parse(&text, &CASES);
        }
    }
}
