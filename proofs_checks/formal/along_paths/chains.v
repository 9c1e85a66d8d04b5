(* Chains of models: a draft that is itself drafted for.

   The drafts come out of a process of any kind, with outcomes of its own: another rule with its own drafts, another decoding loop. The
   rule that verifies them sees the tokens alone.
   THEOREM (chain_mean). Then only the law of these tokens counts: what the rule does on average is what it does on drafts of that law.
   THEOREM (chain_lossless). So a lossless rule for that law is lossless on them, and accepts as much.
   THEOREM (chain_of_two). One token of q, made by any lossless rule from drafts of a third model, is a draft of q for the rule for p.
   THEOREM (chain_of_any_length). So it goes on: p_1 drafts for p_2, what comes out for p_3, ..: the last target's law comes out.
   THEOREM (chain_of_loops). A path that a lossless decoding loop (rounds.v) decodes for the target q is a path of q, for any past.
   THEOREM (chain_block). So block verification of it against p is lossless; what comes out can be the draft of the next model.
   (refuted.v: a rule that tests these drafts by the third model's law, or looks at what happened when they were made, is not.) *)

From Draft Require Import head problem bound sampling path_rules block joint block_optimal proper rounds.

Section Chain.
Variables (R : realFieldType) (T : finType).
Implicit Types (x z : seq T) (p q : T -> R) (rule : seq T -> selection R T).

Section Any.
(* The outcomes of what makes the k drafts, their probabilities, and what is handed on, of law Q. *)
Variables (k : nat) (W : Type) (outcomes : seq W) (P : W -> R) (made : W -> seq T) (Q : seq T -> R).
Hypothesis made_size : forall w, size (made w) = k.
Hypothesis made_law : forall x, size x = k -> \sum_(w <- outcomes | made w == x) P w = Q x.

Theorem chain_mean (f : seq T -> R) : \sum_(w <- outcomes) P w * f (made w) = \sum_(x <- drafts k) Q x * f x.
Proof.
transitivity (\sum_(x <- drafts k) \sum_(w <- outcomes) (if made w == x then P w * f x else 0)); last first.
  rewrite [LHS]big_seq [RHS]big_seq; apply: eq_bigr => x; rewrite mem_drafts => /eqP xk.
  by rewrite -made_law // mulr_suml -big_mkcond.
rewrite exchange_big; apply: eq_bigr => w _ /=; rewrite (bigD1_seq (made w)) ?mem_drafts ?made_size ?uniq_drafts //= eqxx.
by rewrite big1 ?addr0 // => x /negbTE; rewrite eq_sym => ->.
Qed.

Theorem chain_lossless p rule : lossless k Q p rule ->
  (forall y, \sum_(w <- outcomes) P w * row (made w) (rule (made w)) y = p y) /\
  \sum_(w <- outcomes) P w * (\sum_(y | y \in made w) row (made w) (rule (made w)) y) = acceptance k Q rule.
Proof.
move=> out; split=> [y|]; last by rewrite (chain_mean (fun x => \sum_(y | y \in x) row x (rule x) y)) acceptanceE.
by rewrite (chain_mean (fun x => row x (rule x) y)) -out outputE.
Qed.
End Any.

(* One token c of q, made by the rule `inner` from k drafts x. *)
Theorem chain_of_two k (Q : seq T -> R) p q inner outer (y : T) : lossless k Q q inner -> lossless 1 (iid q) p outer ->
  \sum_(x <- drafts k) Q x * (\sum_c row x (inner x) c * row [:: c] (outer [:: c]) y) = p y.
Proof.
move=> inq out; rewrite -out outputE sum_drafts; under eq_bigr do rewrite mulr_sumr; rewrite exchange_big; apply: eq_bigr => c _ /=.
by rewrite sum_drafts0 /= mulr1 -(inq c) outputE mulr_suml; apply: eq_bigr => x _; rewrite mulrA.
Qed.

(* (target, rule) for each further model: its draft is what came out before. *)
Fixpoint chained q (s : seq ((T -> R) * (seq T -> selection R T))) : T -> R :=
  if s is (_, rule) :: s' then chained (fun y => output 1 (iid q) rule y) s' else q.
Fixpoint fits q (s : seq ((T -> R) * (seq T -> selection R T))) : Prop :=
  if s is (p, rule) :: s' then lossless 1 (iid q) p rule /\ fits p s' else True.
Theorem chain_of_any_length q s y : fits q s -> chained q s y = last q (map fst s) y.
Proof.
have ext q1 q2 s' (a : T) : q1 =1 q2 -> chained q1 s' a = chained q2 s' a.
  elim: s' q1 q2 => [|[p rule] s' ih] q1 q2 e //=; apply: ih => b; rewrite !outputE; apply: eq_bigr => x _; congr (_ * _).
  by elim: x => //= c x ->; rewrite e.
by elim: s q => [//|[p rule] s ih] q /= [out f]; rewrite -ih //; exact: ext.
Qed.
End Chain.

(** Along paths. *)
Section Loops.
Variables (R : realFieldType) (T : finType) (p q : seq T -> T -> R).
Hypotheses (p_law : forall h, law (p h)) (q_law : forall h, law (q h)).
(* The decoding loop of q, whose rounds are lossless: of rules, trees and drafts of a third model of any kind. *)
Variables (S : Type) (O : eqType) (so_far : S -> seq T) (outcomes : S -> seq O) (P : S -> O -> R).
Variables (emitted : S -> O -> seq T) (next : S -> O -> S).
Hypothesis one_or_more : forall s o, (0 < size (emitted s o))%N.
Hypothesis goes_on : forall s o, so_far (next s o) = so_far s ++ emitted s o.
Hypothesis rounds : forall s, lossless_round q so_far outcomes P emitted s.
Notation path n s := (decoded outcomes P emitted next n s).

(* The models from the past on. *)
Definition after (m : seq T -> T -> R) h u := m (h ++ u).

Theorem chain_of_loops n L s (f : seq T -> R) : (L <= n)%N ->
  \sum_(x <- drafts L) path n s x * f x = \sum_(x <- drafts L) in_sequence (after q (so_far s)) [::] x * f x.
Proof.
move=> Ln; rewrite [LHS]big_seq [RHS]big_seq; apply: eq_bigr => x; rewrite mem_drafts => /eqP xL; congr (_ * _).
by rewrite (rounds_lossless one_or_more goes_on s rounds) ?xL // (in_sequence_target q so_far) cats0.
Qed.

Theorem chain_block n L s z : (L <= n)%N -> size z = L.+1 ->
  \sum_(x <- drafts L) path n s x * block_emits (real R) (index_enum T) (after p (so_far s)) (after q (so_far s)) [::] 1 x z
  = in_sequence (after p (so_far s)) [::] z.
Proof.
move=> Ln sz; rewrite (chain_of_loops _ (fun x => block_emits _ _ _ _ _ _ x z)) //.
have p'_law h : law (after p (so_far s) h) by exact: p_law.
have q'_law h : law (after q (so_far s) h) by exact: q_law.
by have := block_verification_lossless p'_law q'_law sz; rewrite /path_rules.block_output sumE.
Qed.
End Loops.

Print Assumptions chain_mean.
Print Assumptions chain_lossless.
Print Assumptions chain_of_two.
Print Assumptions chain_of_any_length.
Print Assumptions chain_of_loops.
Print Assumptions chain_block.
