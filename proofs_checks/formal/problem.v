(* The problem: rules as functions, output law, acceptance, and rules as couplings.

   THEOREM (rule_is_coupling, coupling_is_rule). A rule is lossless for the draft law Q and the target p,
       sum_x Q(x) row_x(y) = p(y) for every y,
   if and only if pi(x, y) = Q(x) row_x(y) is a coupling of Q and p; and every coupling of Q and p is of this form, for a
   rule given by accept and residual. The acceptance of the rule is the mass of pi on pairs with y in x.

   Tokens: any finite type T. Numbers: any real field R. Drafts: lists of k tokens, any k, any law on them. *)

From Draft Require Import head.

Section Problem.
Variables (R : realFieldType) (T : finType).
Implicit Types (p q m v w : T -> R) (x : seq T) (Q : seq T -> R).

(* What the generic definitions are over a real field. *)
Lemma leastE (a b : R) : least (real R) a b = Num.min a b. Proof. by rewrite /least /= minEle. Qed.
Lemma mostE (a b : R) : most (real R) a b = Num.max a b. Proof. by rewrite /most /= maxEle. Qed.
Lemma sumE (X : Type) (s : seq X) (f : X -> R) : sum_of (real R) s f = \sum_(x <- s) f x.
Proof. by elim: s => [|x s ih]; rewrite /= ?big_nil ?big_cons ?ih. Qed.
Lemma massE v : mass v = \sum_y v y. Proof. exact: sumE. Qed.
Lemma powE (a : R) k : pow (real R) a k = a ^+ k.
Proof. by elim: k => [|k ih] //=; rewrite ih exprS. Qed.
Lemma tableE v : table (real R) tokens v =1 v.
Proof. by move=> y; rewrite /table (nth_map y) ?nth_index ?index_mem ?mem_index_enum. Qed.
Lemma excessE p q y : excess p q y = Num.max (p y - q y) 0.
Proof. by rewrite /excess tableE mostE. Qed.
Lemma excess_ge0 p q y : 0 <= excess p q y.
Proof. by rewrite excessE le_maxr lexx orbT. Qed.
Lemma excess_min p q y : excess p q y = p y - Num.min (p y) (q y).
Proof. by rewrite excessE; case: (leP (p y) (q y)) => h; case: leP => h'; lra. Qed.

Lemma normE v w y : (forall y, 0 <= v y) ->
  norm v w y = if \sum_y v y == 0 then w y else v y / \sum_y v y.
Proof.
move=> v0; rewrite /norm tableE massE /=.
by rewrite [\sum_y v y == 0]eq_le (sumr_ge0 _ (fun y _ => v0 y)) andbT.
Qed.
Lemma norm_mass v w y : (forall y, 0 <= v y) -> (\sum_y v y) * norm v w y = v y.
Proof.
move=> v0; rewrite normE //; case: eqP => [e|/eqP e]; last by rewrite mulrC divfK.
rewrite e mul0r; have /psumr_eq0P -/(_ (fun y _ => v0 y)) h := e.
by rewrite h.
Qed.
Lemma norm_ge0 v w y : (forall y, 0 <= v y) -> (forall y, 0 <= w y) -> 0 <= norm v w y.
Proof. by move=> v0 w0; rewrite normE //; case: ifP => // _; rewrite divr_ge0 // sumr_ge0. Qed.
Lemma norm_sum v w : (forall y, 0 <= v y) -> \sum_y w y = 1 -> \sum_y norm v w y = 1.
Proof.
move=> v0 w1; under eq_bigr do rewrite normE //.
by case: eqP => [_|/eqP e] //; rewrite -mulr_suml divff.
Qed.

(* A law: masses >= 0 of sum 1. *)
Definition law p := (forall y, 0 <= p y) /\ \sum_y p y = 1.
Definition draft_law k Q := (forall x, 0 <= Q x) /\ \sum_(x <- drafts k) Q x = 1.

Lemma law_le1 p y : law p -> p y <= 1.
Proof. by case=> p0 <-; rewrite (bigD1 y) //= ler_addl sumr_ge0. Qed.

Lemma law_eq p q : p =1 q -> law q -> law p.
Proof. by move=> e [q0 q1]; split=> [y|]; rewrite ?e // -q1; apply: eq_bigr => y _; rewrite e. Qed.

Lemma norm_law v w : (forall y, 0 <= v y) -> law w -> law (norm v w).
Proof. by move=> v0 [w0 w1]; split=> [y|]; [exact: norm_ge0 | exact: norm_sum]. Qed.

Lemma drafts0 : drafts 0 = [:: [::]] :> seq (seq T). Proof. by []. Qed.
Lemma sum_drafts k (f : seq T -> R) :
  \sum_(x <- drafts k.+1) f x = \sum_y \sum_(x <- drafts k) f (y :: x).
Proof.
rewrite /= big_flatten /= big_map; apply: eq_bigr => y _.
by rewrite big_map.
Qed.
Lemma sum_drafts0 (f : seq T -> R) : \sum_(x <- drafts 0) f x = f [::].
Proof. by rewrite big_seq1. Qed.
Lemma mem_drafts k x : (x \in drafts k) = (size x == k).
Proof.
elim: k x => [|k ih] x; first by rewrite inE; case: x.
apply/flatten_mapP/idP => [[y _ /mapP[x' h ->]]|]; first by rewrite /= eqSS -ih.
case: x => [//|y x]; rewrite /= eqSS -ih => h; exists y; rewrite ?mem_index_enum //.
by apply/mapP; exists x.
Qed.
Lemma uniq_drafts k : uniq (drafts k : seq (seq T)).
Proof.
elim: k => [//|k ih]; apply: allpairs_uniq => //; first exact: index_enum_uniq.
by move=> [a x] [b y] _ _ /= [-> ->].
Qed.

Lemma rowE x (s : selection R T) y :
  row x s y = \sum_(z <- zip x (accept s)) (if z.1 == y then z.2 else 0) + (1 - \sum_(a <- accept s) a) * residual s y.
Proof. by rewrite /row /= !sumE. Qed.
Lemma outputE k Q rule y : output k Q rule y = \sum_(x <- drafts k) Q x * row x (rule x) y.
Proof. by rewrite /output sumE. Qed.
Lemma acceptanceE k Q rule :
  acceptance k Q rule = \sum_(x <- drafts k) Q x * \sum_(y | y \in x) row x (rule x) y.
Proof. by rewrite /acceptance sumE; apply: eq_bigr => x _ /=; rewrite sumE big_filter. Qed.

(* A rule decides properly if what it gives for drafts that occur is a selection: its row is a law. *)
Definition proper k Q (rule : seq T -> selection R T) := forall x, x \in drafts k -> Q x != 0 -> law (row x (rule x)).
Definition lossless k Q p (rule : seq T -> selection R T) := forall y, output k Q rule y = p y.

(* A coupling of the drafts' law and the target. *)
Definition coupling k Q p (pi : seq T -> T -> R) :=
  [/\ forall x y, x \in drafts k -> 0 <= pi x y,
      forall x, x \in drafts k -> \sum_y pi x y = Q x
    & forall y, \sum_(x <- drafts k) pi x y = p y].

(* The row of a sequence of tests: the first accepts y with probability t, the rest is as it is. *)
Lemma row_cons (y : T) x t (s : selection R T) (z : T) : size x = size (accept s) ->
  row (y :: x) (Selection (t :: map (mul (real R) (1 - t)) (accept s)) (residual s)) z
  = (if y == z then t else 0) + (1 - t) * row x s z.
Proof.
move=> sz; rewrite !rowE /= !big_cons /= mulrDr big_map -mulr_sumr mulrA -addrA; congr (_ + (_ + _)); last first.
  by congr (_ * _); lra.
elim: x (accept s) sz => [|a x ih] [|b l] //=; rewrite ?big_nil ?mulr0 // => -[sz].
by rewrite !big_cons /= ih // mulrDr; case: ifP; rewrite ?mulr0.
Qed.

Lemma row_nil (s : selection R T) (z : T) : accept s = [::] -> row [::] s z = residual s z.
Proof. by move=> e; rewrite rowE e !big_nil subr0 mul1r add0r. Qed.

(* Accepting by first occurrences realises any row. *)
Lemma first_timesE v x (seen : seq T) (y : T) :
  \sum_(z <- zip x (first_times (real R) v seen x)) (if z.1 == y then z.2 else 0)
  = if (y \in x) && (y \notin seen) then v y else 0.
Proof.
elim: x seen => [|a x ih] seen; first by rewrite big_nil.
rewrite /= big_cons ih /= !inE negb_or /=.
case: (eqVneq a y) => [->|ne] /=; first by rewrite ?eqxx /= ?andbF addr0; case: ifP.
by rewrite add0r.
Qed.
Lemma first_times_sum v x (seen : seq T) :
  \sum_(a <- first_times (real R) v seen x) a = \sum_(y | (y \in x) && (y \notin seen)) v y.
Proof.
elim: x seen => [|a x ih] seen; first by rewrite big_nil big_pred0.
rewrite /= big_cons ih; case: ifP => [h|/negbT h].
  rewrite add0r; apply: eq_bigl => y; rewrite !inE; case: (eqVneq y a) => [->|] //=.
  by rewrite h /= andbF.
rewrite [RHS](bigD1 a) ?inE ?eqxx //=; congr (_ + _); apply: eq_bigl => y; rewrite !inE negb_or.
by case: (eqVneq y a) => [->|] //=; rewrite ?andbF ?andbT.
Qed.

Lemma from_row_row v x y : law v -> row x (from_row (real R) tokens v x) y = v y.
Proof.
move=> [v0 v1]; rewrite rowE first_timesE first_times_sum /= andbT.
have -> : 1 - \sum_(y | (y \in x) && (y \notin [::])) v y = \sum_y (if y \in x then 0 else v y).
  rewrite -v1 (bigID (fun y => y \in x)) /=; under [X in _ - X]eq_bigl do rewrite andbT.
  rewrite addrAC subrr add0r big_mkcond /=; apply: eq_bigr => z _.
  by case: (z \in x).
rewrite norm_mass; last by move=> z; case: ifP.
by case: ifP; rewrite ?addr0 ?add0r.
Qed.

Theorem rule_is_coupling k Q p rule : draft_law k Q -> proper k Q rule -> lossless k Q p rule ->
  coupling k Q p (fun x y => Q x * row x (rule x) y).
Proof.
move=> [Q0 _] ok out; split=> [x y xk|x xk|y]; last by rewrite -out outputE.
  have [->|ne] := eqVneq (Q x) 0; first by rewrite mul0r.
  by rewrite mulr_ge0 //; case: (ok x xk ne).
have [->|ne] := eqVneq (Q x) 0; first by under eq_bigr do rewrite mul0r; rewrite big1.
by rewrite -mulr_sumr; case: (ok x xk ne) => _ ->; rewrite mulr1.
Qed.

Definition rule_of Q p (pi : seq T -> T -> R) (x : seq T) : selection R T :=
  if Q x == 0 then from_row (real R) tokens p x else from_row (real R) tokens (fun y => pi x y / Q x) x.

Lemma rule_of_row k Q p pi x y : draft_law k Q -> coupling k Q p pi -> x \in drafts k ->
  Q x * row x (rule_of Q p pi x) y = pi x y.
Proof.
move=> [Q0 _] [pi0 piQ pip] xk; rewrite /rule_of; case: eqP => [e|/eqP e].
  have /psumr_eq0P h : \sum_y pi x y = 0 by rewrite piQ.
  by rewrite e mul0r h // => z _; exact: pi0.
rewrite from_row_row; first by rewrite mulrC divfK.
split=> [z|]; first by rewrite divr_ge0 ?pi0.
by rewrite -mulr_suml piQ // divff.
Qed.

Theorem coupling_is_rule k Q p pi : draft_law k Q -> law p -> coupling k Q p pi ->
  [/\ proper k Q (rule_of Q p pi), lossless k Q p (rule_of Q p pi)
    & acceptance k Q (rule_of Q p pi) = \sum_(x <- drafts k) \sum_(y | y \in x) pi x y].
Proof.
move=> Ql pl c; have [pi0 piQ pip] := c; split=> [x xk ne|y|].
- split=> [y|].
    rewrite -(pmulr_rge0 _ (x := Q x)) ?(rule_of_row _ Ql c) ?pi0 //.
    by rewrite lt_def ne; case: Ql => ->.
  apply: (mulfI ne); rewrite mulr1 mulr_sumr -[RHS]piQ //.
  by apply: eq_bigr => y _; rewrite (rule_of_row _ Ql c).
- rewrite outputE -pip big_seq [RHS]big_seq; apply: eq_bigr => x xk.
  by rewrite (rule_of_row _ Ql c).
- rewrite acceptanceE big_seq [RHS]big_seq; apply: eq_bigr => x xk.
  by rewrite mulr_sumr; apply: eq_bigr => y _; rewrite (rule_of_row _ Ql c).
Qed.

End Problem.

Print Assumptions rule_is_coupling.
Print Assumptions coupling_is_rule.
