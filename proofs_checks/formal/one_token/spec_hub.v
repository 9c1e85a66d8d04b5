(* SpecHub attains the optimum of its law.

   Two drafts, a token a with q(a) < 1, the draft's top token or any other: (i, a) has the probability q(i), (a, i) has q(a) q(i) / (1 - q(a)),
   for i other than a. The draft that is not a is selected; its token has the law q' = norm(q outside a), and is coupled with p.
   THEOREM (spec_hub_lossless). This is lossless.
   THEOREM (spec_hub_optimal). It accepts p(a) + sum of min(p, q') over the other tokens, and no lossless rule for these drafts accepts more.

   Any finite set of tokens, any real field. *)

From Draft Require Import head problem bound couple.

(* The drafts and the rule, for numbers of any kind. *)
Section Definitions.
Variables (A : Type) (N : numbers A) (T : eqType) (tokens : seq T) (p q : T -> A) (a : T).
Definition hub (x : seq T) : A :=
  if x is [:: i; j] then
    if i == a then (if j == a then zero N else mul N (q a) (div N (q j) (sub N (one N) (q a)))) else if j == a then q i else zero N
  else zero N.
Definition not_hub (x : seq T) : seq A := [seq if y == a then zero N else one N | y <- x].
Definition spec_hub (x : seq T) : selection A T := rules.couple N tokens p (outside N tokens q [:: a]) (not_hub x) x.
End Definitions.

Section SpecHub.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (a : T).
Hypotheses (p_law : law p) (q_law : law q) (q_a : q a < 1).
Notation hub := (hub (real R) q a).
Notation choice := (not_hub (real R) a).
Notation rule := (spec_hub (real R) (index_enum T) p q a).
Let m := outside (real R) (index_enum T) q [:: a].
Let rest : 0 < 1 - q a. Proof. by rewrite subr_gt0. Qed.

Lemma others_sum : \sum_(y | y != a) q y = 1 - q a.
Proof. by have := proj2 q_law; rewrite (bigD1 a) //=; lra. Qed.
Lemma mE y : m y = if y == a then 0 else q y / (1 - q a).
Proof.
have v0 z : 0 <= (if z \in [:: a] then 0 else q z) by case: ifP => // _; case: q_law.
have e : \sum_z (if z \in [:: a] then 0 else q z) = 1 - q a.
  by rewrite -others_sum [RHS]big_mkcond; apply: eq_bigr => z _; rewrite inE; case: (z == a).
rewrite /m /outside normE // e gt_eqF // inE; by case: ifP; rewrite ?mul0r.
Qed.
Lemma m_ge0 y : 0 <= m y.
Proof. by rewrite mE; case: ifP => // _; rewrite divr_ge0 ?(ltW rest) //; case: q_law. Qed.
Lemma m_others : \sum_(y | y != a) m y = 1.
Proof.
rewrite (eq_bigr (fun y => q y / (1 - q a))) => [|y /negbTE ya]; last by rewrite mE ya.
by rewrite -mulr_suml others_sum divff // gt_eqF.
Qed.

(* Means over the drafts, by the token that is not a. *)
Lemma sum_hub (f : seq T -> R) :
  \sum_(x <- drafts 2) hub x * f x = \sum_(i | i != a) m i * (q a * f [:: a; i] + (1 - q a) * f [:: i; a]).
Proof.
rewrite sum_drafts; under eq_bigr do rewrite sum_drafts; under eq_bigr do under eq_bigr do rewrite sum_drafts0.
rewrite (bigD1 a) //= (bigD1 a) //= eqxx mul0r add0r -big_split /=; apply: eq_bigr => i ia.
rewrite (negbTE ia) mE (negbTE ia) (bigD1 a) //= eqxx big1 ?addr0 => [|j /negbTE ja]; last by rewrite ja mul0r.
have e : q i = q i / (1 - q a) * (1 - q a) by rewrite divfK // gt_eqF.
set u := q i / (1 - q a) in e *; rewrite e; ring.
Qed.

Lemma hub_law : draft_law 2 hub.
Proof.
have [q0 _] := q_law; split=> [x|].
  case: x => [|i [|j [|? ?]]] //=; case: ifP => _; case: ifP => _ //.
  by rewrite mulr_ge0 // divr_ge0 // ltW.
have := sum_hub (fun _ => 1); under eq_bigr do rewrite mulr1; move=> ->; rewrite -[RHS]m_others.
by apply: eq_bigr => i _; rewrite !mulr1 addrC subrK mulr1.
Qed.

(* Drafts that occur: a and another token i, which is selected. *)
Lemma drafted x : x \in drafts 2 -> hub x != 0 -> exists2 i, i != a & (x = [:: a; i] \/ x = [:: i; a]).
Proof.
rewrite mem_drafts; case: x => [|i [|j [|? ?]]] //= _.
have [->|ia] := eqVneq i a; first by have [->|ja _] := eqVneq j a; rewrite ?eqxx //; exists j => //; left.
by have [->|ja] := eqVneq j a; rewrite ?eqxx // => _; exists i => //; right.
Qed.
Lemma selected i y : i != a -> chosen (choice [:: a; i]) [:: a; i] y = (i == y)%:R /\ chosen (choice [:: i; a]) [:: i; a] y = (i == y)%:R.
Proof.
move=> /negbTE ia; rewrite /chosen /not_hub /= !big_cons !big_nil /= eqxx ia.
by split; case: (a == y); case: (i == y); rewrite /= ?add0r ?addr0.
Qed.
Let size_choice x : size (choice x) = size x. Proof. exact: size_map. Qed.
Let chosen_ge0 x y : x \in drafts 2 -> hub x != 0 -> 0 <= chosen (choice x) x y.
Proof. by move=> xk /(drafted xk)[i ia [->|->]]; have [e e'] := selected y ia; rewrite ?e ?e' ler0n. Qed.
Let chosen_sum x : x \in drafts 2 -> hub x != 0 -> \sum_y chosen (choice x) x y = 1.
Proof.
move=> xk /(drafted xk)[i ia e]; rewrite (eq_bigr (fun y => (i == y)%:R)) => [|y _].
  by rewrite (bigD1 i) //= eqxx big1 ?addr0 // => y /negbTE; rewrite eq_sym => ->.
by have [e1 e2] := selected y ia; case: e => ->.
Qed.
Let chosen_law y : \sum_(x <- drafts 2) hub x * chosen (choice x) x y = m y.
Proof.
rewrite sum_hub (eq_bigr (fun i => if i == y then m i else 0)) => [|i ia]; last first.
  have [-> ->] := selected y ia; rewrite -mulrDl addrC subrK mul1r.
  by case: (i == y); rewrite ?mulr1 ?mulr0.
rewrite -big_mkcondr; have [->|ya] := eqVneq y a.
  by rewrite mE eqxx big_pred0 // => i; exact: andNb.
by rewrite (big_pred1 y) // => i /=; have [->|_] := eqVneq i y; rewrite ?andbF ?andbT ?ya.
Qed.

Theorem spec_hub_lossless : proper 2 hub rule /\ lossless 2 hub p rule.
Proof.
split; first exact: (couple_proper hub_law p_law chosen_ge0 chosen_sum chosen_law).
exact: (couple_lossless hub_law p_law chosen_ge0 chosen_sum chosen_law).
Qed.

Let best := p a + \sum_(y | y != a) Num.min (p y) (m y).
Lemma at_least_best : best <= acceptance 2 hub rule.
Proof.
have pE : p a = \sum_(x <- drafts 2) hub x * row x (rule x) a.
  by have [_ out] := spec_hub_lossless; rewrite -(out a) outputE.
have -> : best = \sum_(x <- drafts 2) hub x
    * (row x (rule x) a + \sum_(z | z != a) chosen (choice x) x z * Num.min 1 (p z / m z)).
  under [RHS]eq_bigr do rewrite mulrDr mulr_sumr; rewrite big_split /= -pE exchange_big; congr (_ + _).
  apply: eq_bigr => z za; under eq_bigr do rewrite mulrA; rewrite -mulr_suml chosen_law taken_min //; [by case: p_law | exact: m_ge0].
rewrite acceptanceE big_seq [leRHS]big_seq; apply: ler_sum => x xk.
have [->|ne] := eqVneq (hub x) 0; first by rewrite !mul0r.
rewrite ler_wpmul2l ?(proj1 hub_law) //; have [i ia ex] := drafted xk ne.
have ax : a \in x by case: ex => ->; rewrite !inE eqxx ?orbT.
rewrite [leRHS](bigD1 a) //= ler_add2l big_mkcond [leRHS]big_mkcond; apply: ler_sum => z _.
have [za|za] := boolP (z != a); last by rewrite andbF.
have [zx|zx] := boolP (z \in x); last by rewrite (chosen_outside _ zx) mul0r.
rewrite /= couple_row ler_addl mulr_ge0 //; last by case: (excess_law m p_law).
rewrite subr_ge0 -[leRHS](chosen_sum xk ne); apply: ler_sum => y _.
have k1 : Num.min 1 (p y / m y) <= 1 by rewrite le_minl lexx.
by apply: ler_pimulr => //; apply: chosen_ge0 xk ne.
Qed.
Lemma at_most_best other : proper 2 hub other -> lossless 2 hub p other -> acceptance 2 hub other <= best.
Proof.
move=> ok out; pose H y := (y == a) || (p y < m y).
apply: le_trans (bound hub_law ok out H) _.
have -> : inside 2 hub H = \sum_(i | i != a) (if H i then m i else 0).
  rewrite /inside big_mkcond; transitivity (\sum_(x <- drafts 2) hub x * (all H x)%:R).
    by apply: eq_bigr => x _; case: (all H x); rewrite ?mulr1 ?mulr0.
  rewrite sum_hub; apply: eq_bigr => i ia; rewrite /= !andbT [in X in _ * (_ + _ * X)]andbC /H eqxx /= (negbTE ia) /=.
  by rewrite -mulrDl addrC subrK mul1r; case: ifP; rewrite ?mulr1 ?mulr0.
have -> : mass_of p H = p a + \sum_(i | i != a) (if H i then p i else 0).
  by rewrite /mass_of big_mkcond (bigD1 a) //= /H eqxx.
have e : \sum_(i | i != a) Num.min (p i) (m i)
    = \sum_(i | i != a) m i + \sum_(i | i != a) (if H i then p i else 0) - \sum_(i | i != a) (if H i then m i else 0).
  rewrite -big_split -sumrB; apply: eq_bigr => i /negbTE ia; rewrite /H ia /=.
  by case: (ltP (p i) (m i)) => c; rewrite ?addr0 ?subr0 //; lra.
by rewrite /best e m_others; lra.
Qed.
Theorem spec_hub_optimal : acceptance 2 hub rule = best
  /\ forall other, proper 2 hub other -> lossless 2 hub p other -> acceptance 2 hub other <= acceptance 2 hub rule.
Proof.
have [ok out] := spec_hub_lossless; split=> [|other ok' out'].
  by apply/eqP; rewrite eq_le at_least_best at_most_best.
exact: le_trans (at_most_best ok' out') at_least_best.
Qed.
End SpecHub.

Print Assumptions spec_hub_lossless.
Print Assumptions spec_hub_optimal.
