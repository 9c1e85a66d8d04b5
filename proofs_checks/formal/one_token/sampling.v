(* Speculative sampling, recursive rejection, naive target sampling.

   THEOREM (speculative_sampling_lossless, speculative_sampling_optimal). For one draft from q, min(1, p/q) and the residual
   norm((p - q)+) are lossless, the acceptance is sum_y min(p, q), and no lossless rule accepts more.
   THEOREM (recursive_rejection_lossless). Let every draft be drawn from a law that may depend on the drafts before it.
   Recursive rejection that tests draft i against that law, p_{i+1} = norm((p_i - q_i)+), is lossless, for every k:
   with replacement (recursive_rejection_iid), where that law is always q, and without (recursive_rejection_without
   _replacement), where it is q without the drafts so far, normalised, and uniform on the others where nothing is left of it.
   THEOREM (naive_target_lossless). Naive target sampling is lossless under every law of the drafts.

   Any finite set of tokens, any real field, any k. *)

From Draft Require Import head problem bound.

Section Sampling.
Variables (R : realFieldType) (T : finType).
Implicit Types (p q m : T -> R) (x h : seq T) (Q : seq T -> R) (next : seq T -> T -> R).

Notation speculative_sampling := (speculative_sampling (real R) tokens).
Notation recursive_rejection := (recursive_rejection (real R) tokens).
Notation naive_target := (naive_target (real R) tokens).
Notation without_replacement := (without_replacement (real R) tokens).

(* One test: a token from q, taken with probability min(1, p/q), else one from norm((p - q)+). *)
Lemma one_test p q (y : T) : law p -> law q ->
  \sum_z q z * ((if z == y then Num.min 1 (p z / q z) else 0) + (1 - Num.min 1 (p z / q z)) * norm (excess p q) p y) = p y.
Proof.
move=> pl ql; have [p0 _] := pl; have [q0 q1] := ql.
rewrite -[RHS](maximal_coupling y pl ql).
under eq_bigr do rewrite mulrDr mulrA mulrBr mulr1 taken_min //.
rewrite big_split /= -mulr_suml sumrB q1; congr (_ + _).
rewrite (bigD1 y) //= eqxx big1 ?addr0 ?taken_min // => z /negbTE ->.
by rewrite mulr0.
Qed.

Lemma first_law p q : law p -> law q -> law (norm (excess p q) p).
Proof. by move=> pl _; exact: excess_law. Qed.

(** Recursive rejection *)

Lemma in_sequence_ge0 next h x : (forall h, law (next h)) -> 0 <= in_sequence next h x.
Proof.
by move=> nl; elim: x h => [|y x ih] h /=; rewrite ?ler01 ?mulr_ge0 //; case: (nl h).
Qed.
Lemma in_sequence_law k next h : (forall h, law (next h)) -> draft_law k (in_sequence next h).
Proof.
move=> nl; split=> [x|]; first exact: in_sequence_ge0.
elim: k h => [|k ih] h; first by rewrite sum_drafts0.
rewrite sum_drafts; under eq_bigr do rewrite /= -mulr_sumr ih mulr1.
by case: (nl h).
Qed.

Lemma size_recursive_rejection next h p x : size (accept (recursive_rejection next h p x)) = size x.
Proof. by elim: x h p => [|y x ih] h p //=; rewrite size_map ih. Qed.

Lemma recursive_rejection_row next h p y x z :
  row (y :: x) (recursive_rejection next h p (y :: x)) z
  = (if y == z then Num.min 1 (p y / next h y) else 0) + (1 - Num.min 1 (p y / next h y))
    * row x (recursive_rejection next (rcons h y) (norm (excess p (next h)) p) x) z.
Proof. by rewrite /= -[Num.min _ _]leastE -row_cons // size_recursive_rejection. Qed.

Lemma recursive_rejection_proper k next h p x : (forall h, law (next h)) -> law p -> size x = k ->
  law (row x (recursive_rejection next h p x)).
Proof.
move=> nl; elim: k h p x => [|k ih] h p [|y x] //= pl.
  by move=> _; apply: law_eq pl => z; rewrite row_nil.
case=> sz; have [l0 l1] := ih (rcons h y) (norm (excess p (next h)) p) x (excess_law _ pl) sz.
have /andP[t0 t1] := kept_le1 y (proj1 pl) (proj1 (nl h)).
split=> [z|]; first by rewrite recursive_rejection_row addr_ge0 ?mulr_ge0 ?subr_ge0 //; case: ifP.
under eq_bigr do rewrite recursive_rejection_row.
rewrite big_split /= -mulr_sumr l1 -big_mkcond /= (big_pred1 y) => [|z]; last by rewrite eq_sym.
by rewrite mulr1; lra.
Qed.

Theorem recursive_rejection_lossless k next h p : (forall h, law (next h)) -> law p ->
  lossless k (in_sequence next h) p (recursive_rejection next h p).
Proof.
move=> nl; elim: k h p => [|k ih] h p pl y; rewrite outputE.
  by rewrite sum_drafts0 row_nil //= mul1r.
rewrite sum_drafts -[RHS](one_test y pl (nl h)); apply: eq_bigr => z _.
under eq_bigr do rewrite recursive_rejection_row /= -mulrA mulrDr.
rewrite -mulr_sumr big_split /= -mulr_suml (in_sequence_law _ _ nl).2 mul1r.
under [X in _ + X]eq_bigr do rewrite mulrCA.
have := ih (rcons h z) _ (excess_law (next h) pl) y; rewrite outputE => e.
by rewrite -mulr_sumr e.
Qed.

Lemma iid_in_sequence q h x : iid q x = in_sequence (fun _ => q) h x.
Proof. by elim: x h => [|y x ih] h //=; rewrite -ih. Qed.

Theorem recursive_rejection_iid k p q : law p -> law q ->
  lossless k (iid q) p (recursive_rejection (fun _ => q) [::] p).
Proof.
move=> pl ql y; rewrite -[RHS](recursive_rejection_lossless k [::] (next := fun _ => q) _ pl) // !outputE.
by apply: eq_bigr => x _; rewrite (iid_in_sequence _ [::]).
Qed.

Lemma without_replacement_law q h : law q -> law (without_replacement q h).
Proof.
move=> ql; apply: norm_law => [y|]; first by case: ifP => // _; case: ql.
by apply: norm_law => // y; case: ifP => //= _; exact: ler01.
Qed.

Theorem recursive_rejection_without_replacement k p q : law p -> law q ->
  lossless k (in_sequence (without_replacement q) [::]) p (recursive_rejection (without_replacement q) [::] p).
Proof. by move=> pl ql; apply: recursive_rejection_lossless => // h; exact: without_replacement_law. Qed.

(** Speculative sampling *)

Theorem speculative_sampling_lossless p q : law p -> law q ->
  lossless 1 (iid q) p (speculative_sampling p q).
Proof.
move=> pl ql y; rewrite -[RHS](recursive_rejection_iid 1 pl ql) // !outputE !sum_drafts.
by apply: eq_bigr => z _; rewrite !sum_drafts0.
Qed.

Lemma speculative_sampling_proper p q : law p -> law q -> proper 1 (iid q) (speculative_sampling p q).
Proof.
move=> pl ql x; rewrite mem_drafts => /eqP sz _.
suff -> : speculative_sampling p q x = recursive_rejection (fun _ => q) [::] p x.
  by apply: (recursive_rejection_proper (k := 1)).
by case: x sz => [|y [|z x]].
Qed.

Theorem speculative_sampling_acceptance p q : law p -> law q ->
  acceptance 1 (iid q) (speculative_sampling p q) = \sum_y Num.min (p y) (q y).
Proof.
move=> pl ql; rewrite acceptanceE sum_drafts; apply: eq_bigr => y _.
rewrite sum_drafts0 /= mulr1 (big_pred1 y) => [|z]; last by rewrite inE.
rewrite rowE /= !big_cons !big_nil /= eqxx !addr0 leastE mulrDr mulrA mulrBr mulr1 taken_min //; [|by case: pl|by case: ql].
rewrite normE; last exact: excess_ge0.
case: eqP => [/psumr_eq0P e|_].
  have h z : p z <= q z.
    have : p z - q z <= excess p q z by rewrite excessE le_maxr lexx.
    by rewrite e // => [|z' _]; [lra | exact: excess_ge0].
  have [[p0 p1] [q0 q1]] := (pl, ql).
  have /psumr_eq0P eq0 : \sum_z (q z - p z) = 0 by rewrite sumrB q1 p1 subrr.
  have pq : q y - p y = 0 by apply: eq0 => // z _; rewrite subr_ge0.
  have -> : q y = p y by lra.
  by rewrite minxx subrr mul0r addr0.
case: (leP (p y) (q y)) => c; last by rewrite subrr mul0r addr0.
by rewrite excessE (_ : Num.max _ _ = 0) ?mul0r ?mulr0 ?addr0 //; apply: max_r; rewrite subr_le0.
Qed.

Theorem speculative_sampling_optimal p q rule : law p -> law q ->
  proper 1 (iid q) rule -> lossless 1 (iid q) p rule ->
  acceptance 1 (iid q) rule <= acceptance 1 (iid q) (speculative_sampling p q).
Proof.
move=> pl ql ok out; rewrite speculative_sampling_acceptance //.
have := bound (iid_law 1 ql) ok out (fun y => p y < q y); rewrite iid_inside expr1 => h.
apply: le_trans h _; have [_ q1] := ql.
rewrite -{1}q1 (bigID (fun y => p y < q y)) /= [leRHS](bigID (fun y => p y < q y)) /= /mass_of.
have -> : \sum_(y | p y < q y) Num.min (p y) (q y) = \sum_(y | p y < q y) p y.
  by apply: eq_bigr => y c; rewrite minEle ltW.
have -> : \sum_(y | ~~ (p y < q y)) Num.min (p y) (q y) = \sum_(y | ~~ (p y < q y)) q y.
  by apply: eq_bigr => y; rewrite -leNgt minC minEle => ->.
lra.
Qed.

(** Naive target sampling *)

Theorem naive_target_lossless k Q p : draft_law k Q -> law p ->
  lossless k Q p (naive_target p) /\ proper k Q (naive_target p).
Proof.
move=> [Q0 Q1] pl; split=> [y|x xk _].
  rewrite outputE; under eq_bigr do rewrite from_row_row //.
  by rewrite -mulr_suml Q1 mul1r.
split=> [y|]; first by rewrite from_row_row //; case: pl.
by under eq_bigr do rewrite from_row_row //; case: pl.
Qed.

End Sampling.

Print Assumptions speculative_sampling_lossless.
Print Assumptions speculative_sampling_optimal.
Print Assumptions recursive_rejection_lossless.
Print Assumptions recursive_rejection_iid.
Print Assumptions recursive_rejection_without_replacement.
Print Assumptions naive_target_lossless.
