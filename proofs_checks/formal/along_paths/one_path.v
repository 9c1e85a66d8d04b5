(* One path: Traversal and Joint are block verification there, and token-wise speculative sampling accepts no more.

   THEOREM (traversal_of_one_path, traversal_output_one, traversal_length_one). Traversal of K = 1 path emits and accepts what block
       verification does, path by path and on average.
   THEOREM (joint_of_one_path, joint_output_one, optimal_joint_output_one). So does Joint, whichever way drafts are selected: of one draft there
       is no choice, and its law is q.
   THEOREM (token_wise_of_one_path). Token-wise selection with speculative sampling, as path_rules.v has it for any rule, accepts on a
       path of positive probability the sum of the products of the min(1, p/q).
   THEOREM (block_at_least_token_wise). So block verification accepts at least what token-wise speculative sampling does, on average.

   Models of any kind, any finite set of tokens, any real field, any length. *)

From Draft Require Import head problem bound sampling path_rules block joint proper.

Section OnePath.
Variables (R : realFieldType) (T : finType) (p q : seq T -> T -> R).
Implicit Types (h x z : seq T) (v w : R) (L : nat).
Notation sampling := (fun h => speculative_sampling (real R) (index_enum T) (p h) (q h)).
Notation token_wise_length := (token_wise_length (real R) (index_enum T) sampling).
Notation token_weights := (token_weights (real R) p q).

Lemma sum_one L (f : seq (seq T) -> R) :
  \sum_(xs <- bundles (index_enum T) L 1) bundle_law (real R) q [::] xs * f xs = \sum_(x <- drafts L) in_sequence q [::] x * f [:: x].
Proof.
rewrite /path_rules.bundles /= big_flatten big_map; apply: eq_bigr => x _.
by rewrite big_seq1 /path_rules.bundle_law /= mulr1.
Qed.

Theorem traversal_of_one_path x c z :
  traversal_emits (real R) (index_enum T) p q (p [::]) 1 [:: x] (c :: z) = block_emits (real R) (index_enum T) p q [::] 1 x (c :: z).
Proof. by case: x => [|y x] //=; rewrite !mulrA. Qed.
Theorem traversal_output_one L c z :
  traversal_output (real R) (index_enum T) p q L 1 (c :: z) = block_output (real R) (index_enum T) p q L (c :: z).
Proof.
by rewrite /traversal_output /block_output !sumE sum_one; apply: eq_bigr => x _; rewrite traversal_of_one_path.
Qed.
Theorem traversal_length_one L : expected_traversal (real R) (index_enum T) p q L 1 = expected_block (real R) (index_enum T) p q L.
Proof.
rewrite /expected_traversal /expected /expected_block !sumE sum_one; apply: eq_bigr => -[|y x] _ //=.
by rewrite mulr0 addr0.
Qed.

Hypotheses (p_law : forall h, law (p h)) (q_law : forall h, law (q h)).

Lemma token_weights_scale h v x : token_weights h v x = v * token_weights h 1 x.
Proof.
elim: x h v => [|y x ih] h v /=; first by rewrite mulr0.
by rewrite mul1r ih [token_weights _ (least _ _ _) _]ih mulrDr mulrA.
Qed.

Lemma sampling_row h y : 0 < q h y -> row [:: y] (sampling h [:: y]) y = Num.min 1 (p h y / q h y).
Proof.
move=> q0; have [[_ p1] [_ q1]] := (p_law h, q_law h).
rewrite (@row_cons _ _ y [::] _ (Selection [::] (norm (excess (p h) (q h)) (p h)))) // row_nil //= eqxx leastE.
have [qp|pq] := leP (q h y) (p h y).
  by rewrite min_l ?ler_pdivl_mulr ?mul1r // subrr mul0r addr0.
suff -> : norm (excess (p h) (q h)) (p h) y = 0 by rewrite mulr0 addr0.
have some : \sum_b excess (p h) (q h) b != 0.
  apply/eqP => e; have le b : p h b <= q h b.
    move/eqP: e; rewrite psumr_eq0 => [/allP/(_ b (mem_index_enum b))/eqP|b' _]; last exact: excess_ge0.
    by move=> eb; have : p h b - q h b <= excess (p h) (q h) b; [rewrite excessE le_maxr lexx | rewrite eb subr_le0].
  have : \sum_b (q h b - p h b) == 0 by rewrite sumrB p1 q1 subrr.
  rewrite psumr_eq0 => [/allP/(_ y (mem_index_enum y))|b _]; last by rewrite subr_ge0.
  by rewrite /= subr_eq0 => /eqP e'; rewrite e' ltxx in pq.
apply: (mulfI some); rewrite norm_mass => [|b]; last exact: excess_ge0.
by rewrite mulr0 excessE max_r // subr_le0 ltW.
Qed.

Theorem token_wise_of_one_path h x :
  in_sequence q h x * token_wise_length h (size x) [:: x] = in_sequence q h x * token_weights h 1 x.
Proof.
elim: x h => [//|y x ih] h; have [q0 _] := q_law h.
have [e|ne] := eqVneq (q h y) 0; first by rewrite /= e !mul0r.
rewrite [token_wise_length _ _ _]/= sumE big_filter /heads /= (big_pred1 y) => [|c]; last by rewrite inE.
rewrite sampling_row; last by rewrite lt_def ne q0.
rewrite /survivors /= eqxx /= mul1r token_weights_scale leastE.
set t := Num.min _ _; have := ih (rcons h y); set S := in_sequence _ _ _ => e.
transitivity (q h y * t * (S + S * token_wise_length (rcons h y) (size x) [:: x])); first by ring.
by rewrite e; ring.
Qed.

Theorem block_at_least_token_wise L :
  expected_token_wise (real R) (index_enum T) q sampling L 1 <= expected_block (real R) (index_enum T) p q L.
Proof.
rewrite /expected_token_wise /expected /expected_block !sumE sum_one.
rewrite (block_verification_length p_law q_law) ?ler01 // big_seq [leRHS]big_seq; apply: ler_sum => x; rewrite mem_drafts => /eqP<-.
rewrite token_wise_of_one_path ler_wpmul2l ?in_sequence_ge0 //.
by apply: (longer_than_token_wise p_law q_law); rewrite ?ler01.
Qed.

(** Joint. *)

Lemma ladder_ext h w (m m' : T -> R) c : m =1 m' ->
  test (real R) (index_enum T) p h w m = test (real R) (index_enum T) p h w m'
  /\ following (real R) (index_enum T) p h w m c = following (real R) (index_enum T) p h w m' c.
Proof.
move=> e; have left y : left_over (real R) (index_enum T) p h w m y = left_over (real R) (index_enum T) p h w m' y.
  by rewrite /path_rules.left_over !excessE e.
have whole : mass (left_over (real R) (index_enum T) p h w m) = mass (left_over (real R) (index_enum T) p h w m').
  by rewrite !massE; apply: eq_bigr => y _.
split; first by rewrite /path_rules.test whole.
by rewrite /path_rules.following /rules.norm; cbv zeta; rewrite !tableE whole left.
Qed.

Section Joint.
Variables (choice : seq T -> R -> seq T -> seq R) (m : seq T -> R -> nat -> T -> R).
Hypothesis sel : selects q choice m.
Notation chance := (chance (real R) choice).

Lemma one_chance h w (a b : T) : 0 <= w -> w <= 1 -> q h a != 0 -> chance h w [:: a] b = if b == a then 1 else 0.
Proof.
move=> w0 w1 qa; case: eqP => [->|/eqP ne]; last by apply: chance_outside; rewrite inE.
have [_ c1 _] := sel h w0 w1 (ltn0Sn 0); rewrite -(c1 [:: a]) ?mem_drafts //=; last by rewrite mulr1.
by rewrite (bigD1 a) //= big1 ?addr0 // => c ca; apply: chance_outside; rewrite inE.
Qed.
Lemma one_law h w : 0 <= w -> w <= 1 -> m h w 1 =1 q h.
Proof.
move=> w0 w1 y; have [_ _ cm] := sel h w0 w1 (ltn0Sn 0); rewrite -cm sum_drafts.
under eq_bigr do rewrite sum_drafts0 /= mulr1.
have [e|ne] := eqVneq (q h y) 0.
  rewrite e big1 // => a _; have [->|ay] := eqVneq a y; first by rewrite e mul0r.
  by rewrite chance_outside ?mulr0 // inE eq_sym.
rewrite (bigD1 y) //= one_chance // eqxx mulr1 big1 ?addr0 // => a ay.
by rewrite chance_outside ?mulr0 // inE eq_sym.
Qed.
Lemma pick h w (a : T) x (F : T -> R) : 0 <= w -> w <= 1 -> q h a != 0 -> \sum_y chance h w (heads [:: a :: x]) y * F y = F a.
Proof.
move=> w0 w1 qa; rewrite /path_rules.heads /= (bigD1 a) //= one_chance // eqxx mul1r big1 ?addr0 // => b ba.
by rewrite one_chance // (negbTE ba) mul0r.
Qed.

Theorem joint_of_one_path h w x : 0 <= w -> w <= 1 -> in_sequence q h x != 0 ->
  joint_passes (real R) (index_enum T) p choice m h w (size x) [:: x] = block_passes (real R) (index_enum T) p q h w x
  /\ forall z, size z = (size x).+1 ->
    joint_emits (real R) (index_enum T) p choice m h w (size x) [:: x] z = block_emits (real R) (index_enum T) p q h w x z.
Proof.
elim: x h w => [//|a x ih] h w w0 w1; rewrite [in_sequence _ _ _]/= mulf_eq0 negb_or => /andP[qa sx].
have /andP[v0 v1] := next_weight01 p_law h a w0 (q_law h).
have [e f] := ih (rcons h a) _ v0 v1 sx.
have v : next_weight (real R) p h w (m h w 1) a = next_weight (real R) p h w (q h) a.
  by rewrite /path_rules.next_weight one_law.
have alive : survivors a [:: a :: x] = [:: x] by rewrite /path_rules.survivors /= eqxx.
split=> [|[//|c z] [sz]].
  rewrite [LHS]/= sumE pick // alive v e [RHS]/=.
  by have [-> _] := ladder_ext h w a (one_law h w0 w1).
rewrite [LHS]/= sumE pick // alive v e [RHS]/=.
by have [-> ->] := ladder_ext h w c (one_law h w0 w1); rewrite f.
Qed.
Theorem joint_output_one L z : size z = L.+1 ->
  joint_output (real R) (index_enum T) p q choice m L 1 z = block_output (real R) (index_enum T) p q L z.
Proof.
move=> sz; rewrite /joint_output /block_output !sumE sum_one big_seq [RHS]big_seq; apply: eq_bigr => x.
rewrite mem_drafts => /eqP sx; have [->|ne] := eqVneq (in_sequence q [::] x) 0; first by rewrite /= !mul0r.
by have [_ e] := joint_of_one_path ler01 (lexx 1) ne; rewrite -sx e // sx.
Qed.
End Joint.
Theorem optimal_joint_output_one L z : size z = L.+1 ->
  optimal_joint_output (real R) (index_enum T) p q L 1 z = block_output (real R) (index_enum T) p q L z.
Proof. exact/joint_output_one/optimal_selects. Qed.
End OnePath.

Print Assumptions traversal_of_one_path.
Print Assumptions traversal_output_one.
Print Assumptions traversal_length_one.
Print Assumptions joint_of_one_path.
Print Assumptions joint_output_one.
Print Assumptions optimal_joint_output_one.
Print Assumptions token_wise_of_one_path.
Print Assumptions block_at_least_token_wise.
