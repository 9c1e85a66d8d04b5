(* Recursive rejection accepts no more than K-SEQ at gamma*.

   For k i.i.d. drafts. M(s) = sum_y (p - s q)+ falls, and is convex; S_0 = 0, S_(i+1) = S_i + M(S_i).
   THEOREM (recursive_rejection_acceptance). Recursive rejection accepts 1 - M(S_k) = sum_y min(p, S_k q): what it draws from the rest
   was never drafted.
   THEOREM (recursive_rejection_at_most_k_seq). For every factor g > 0 with g beta <= p_acc, that is up to gamma*, K-SEQ's tests accept
   as much, and so does K-SEQ.
   THEOREM (k_seq_at_least_recursive_rejection). Over a real closed field K-SEQ is lossless at one of these factors, in [1, k].
   The reason is `average`: where u_0 = 1 and u falls and is log-convex, ((u_1 + ... + u_k) / (u_0 + ... + u_(k-1)))^k <= u_k.

   Any finite set of tokens, any real field, any k >= 1. *)

From Draft Require Import head problem bound sampling k_seq.

Section Falling.
Variables (R : realFieldType) (u : nat -> R).
Hypotheses (u_one : u 0%N = 1) (u_ge0 : forall i, 0 <= u i) (u_falls : forall i, u i.+1 <= u i).
Hypothesis u_log : forall i, u i.+1 * u i.+1 <= u i * u i.+2.
Implicit Types (l : R) (i n k : nat).

(* Who falls by a factor of l at most does so from there on. *)
Lemma slower l i : 0 <= l -> l * u i <= u i.+1 -> l * u i.+1 <= u i.+2.
Proof.
move=> l0 le; have [e|ne] := eqVneq (u i) 0.
  by have -> : u i.+1 = 0; [apply/eqP; rewrite eq_le u_ge0 -e u_falls | rewrite mulr0].
rewrite -(ler_pmul2l (_ : 0 < u i)) ?lt_def ?ne ?u_ge0 //; apply: le_trans (u_log i).
by rewrite mulrCA mulrA ler_wpmul2r.
Qed.
Lemma slower_power l i n : 0 <= l -> l * u i <= u i.+1 -> l ^+ n * u i <= u (i + n)%N.
Proof.
move=> l0; elim: n i => [|n ih] i le; first by rewrite mul1r addn0.
rewrite exprSr -mulrA addnS -addSn; apply: le_trans (ih i.+1 (slower l0 le)).
by rewrite ler_wpmul2l ?exprn_ge0.
Qed.

Lemma below_powers k l i : 0 < l -> u k <= l ^+ k -> (i <= k)%N -> u i <= l ^+ i.
Proof.
move=> l0 uk; elim: i => [|i ih] ik; first by rewrite u_one.
have [le|gt] := leP (u i.+1) (l * u i).
  by apply: le_trans le _; rewrite exprS ler_wpmul2l ?(ltW l0) // ih // ltnW.
have := slower_power (k - i.+1) (ltW l0) (slower (ltW l0) (ltW gt)); rewrite subnKC // => le.
have := le_trans le uk; rewrite -{2}(subnK ik) exprD ler_pmul2l // exprn_gt0 //.
Qed.

Lemma average k l : (0 < k)%N -> 0 <= l -> l * (\sum_(i < k) u i) = \sum_(i < k) u i.+1 -> l ^+ k <= u k.
Proof.
case: k => [//|n] _ l0 e; have [->|ne] := eqVneq l 0; first by rewrite exprS mul0r.
have {l0 ne} l0 : 0 < l by rewrite lt_def ne.
rewrite leNgt; apply/negP => lt; have le i : (i <= n.+1)%N -> u i <= l ^+ i by exact: below_powers (ltW lt).
have l1 : l <= 1.
  have S0 : 0 < \sum_(i < n.+1) u i by rewrite big_ord_recl u_one ltr_paddr ?ltr01 ?sumr_ge0.
  by rewrite -(ler_pmul2r S0) mul1r e ler_sum.
have powers (m : nat) : (1 - l) * (\sum_(i < m) l ^+ i.+1) = l - l ^+ m.+1.
  by elim: m => [|m ih]; rewrite ?big_ord0 ?mulr0 ?subrr // big_ord_recr mulrDr ih !exprS; ring.
have : (1 - l) * (\sum_(i < n) u i.+1) <= (1 - l) * (\sum_(i < n) l ^+ i.+1).
  by rewrite ler_wpmul2l ?subr_ge0 //; apply: ler_sum => i _; apply: le; rewrite ltnS ltnW.
rewrite powers; move: e lt; rewrite big_ord_recl u_one big_ord_recr /= mulrDr mulr1.
rewrite (eq_bigr (fun i : 'I_n => u i.+1)) // => e lt; rewrite mulrBl mul1r; lra.
Qed.
End Falling.

Section Rules.
Variables (R : realFieldType) (T : finType).
Implicit Types (p q r : T -> R) (g s : R) (k : nat).
Notation recursive q := (recursive_rejection (real R) (index_enum T) (fun _ => q)).
Notation k_seq := (k_seq (real R) (index_enum T)).

(* M(s), and S_i from s on. *)
Definition beyond p q s := \sum_y Num.max (p y - s * q y) 0.
Definition walk p q k s := iter k (fun s => s + beyond p q s) s.

Lemma beyond_ge0 p q s : 0 <= beyond p q s.
Proof. by apply: sumr_ge0 => y _; rewrite le_maxr lexx orbT. Qed.
Lemma beyond0 p q : law p -> beyond p q 0 = 1.
Proof. by move=> [p0 <-]; apply: eq_bigr => y _; rewrite mul0r subr0 max_l. Qed.
Lemma beyond_falls p q s s' : law q -> s <= s' -> beyond p q s' <= beyond p q s.
Proof.
move=> [q0 _] ss; apply: ler_sum => y _; rewrite le_maxl !le_maxr lexx orbT andbT; apply/orP; left.
by rewrite ler_add2l ler_opp2 ler_wpmul2r.
Qed.
Lemma beyond_convex p q s a b : 0 <= a -> 0 <= b ->
  (a + b) * beyond p q (s + a) <= b * beyond p q s + a * beyond p q (s + a + b).
Proof.
move=> a0 b0; rewrite !mulr_sumr -big_split; apply: ler_sum => y _ /=.
have max_ge (x : R) : 0 <= Num.max x 0 /\ x <= Num.max x 0 by rewrite !le_maxr !lexx orbT.
have [[m0 m1] [n0 n1]] := (max_ge (p y - s * q y), max_ge (p y - (s + a + b) * q y)).
have [c|c] := leP (p y - (s + a) * q y) 0.
  by rewrite mulr0 addr_ge0 // mulr_ge0.
have -> : (a + b) * (p y - (s + a) * q y) = b * (p y - s * q y) + a * (p y - (s + a + b) * q y) by ring.
by rewrite ler_add // ler_wpmul2l.
Qed.
Lemma beyond_min p q s : law p -> \sum_y Num.min (s * q y) (p y) = 1 - beyond p q s.
Proof.
move=> [_ <-]; rewrite -sumrB; apply: eq_bigr => y _.
by case: (leP (s * q y) (p y)) => c; [rewrite max_l ?subr_ge0 //; lra | rewrite max_r ?subr0 // subr_le0 ltW].
Qed.

Lemma walkS p q k s : walk p q k.+1 s = walk p q k s + beyond p q (walk p q k s). Proof. by []. Qed.
Lemma walk_sum p q k : walk p q k 0 = \sum_(i < k) beyond p q (walk p q i 0).
Proof. by elim: k => [|k ih]; rewrite ?big_ord0 // big_ord_recr walkS {1}ih. Qed.

Lemma walk_gt0 p q k : (0 < k)%N -> law p -> 0 < walk p q k 0.
Proof.
case: k => [//|k] _ pl; rewrite walk_sum big_ord_recl beyond0 // ltr_paddr ?ltr01 ?sumr_ge0 // => i _; exact: beyond_ge0.
Qed.
(* M(S_k) is as large as the average allows. *)
Lemma walk_power p q k : (0 < k)%N -> law p -> law q -> (1 - beta (walk p q k 0) p q) ^+ k <= beyond p q (walk p q k 0).
Proof.
move=> k0 pl ql; pose u i := beyond p q (walk p q i 0).
have falls i : u i.+1 <= u i by apply: beyond_falls => //; rewrite walkS ler_addl beyond_ge0.
have log i : u i.+1 * u i.+1 <= u i * u i.+2.
  have := beyond_convex p q (walk p q i 0) (beyond_ge0 p q (walk p q i 0)) (beyond_ge0 p q (walk p q i.+1 0)).
  rewrite -!walkS -/(u i) -/(u i.+1) -/(u i.+2); lra.
have one : u 0%N = 1 by exact: beyond0.
have S0 := walk_gt0 q k0 pl.
apply: (@average _ u one _ falls log) => //; [by move=> i; exact: beyond_ge0 | by rewrite subr_ge0 beta_le1 |].
rewrite -walk_sum mulrBl mul1r mulrC scaled_beta // beyond_min //.
have := walk_sum p q k.+1; rewrite walkS big_ord_recl -/(u 0%N) one -/(u k) => e.
by rewrite (_ : \sum_(i < k) u i.+1 = walk p q k 0 + u k - 1) ?e; [lra | rewrite addrC addKr].
Qed.

(** Recursive rejection. *)

Lemma recursive_history p q h x : recursive q h p x = recursive q [::] p x.
Proof. by elim: x h p => [//|a x ih] h p /=; rewrite ih [in RHS]ih. Qed.
(* A token without mass in the target gets none later. *)
Lemma recursive_zero p q x y : (forall y, 0 <= q y) -> p y = 0 -> row x (recursive q [::] p x) y = 0.
Proof.
move=> q0; elim: x p => [|a x ih] p p0; first by rewrite row_nil.
rewrite recursive_rejection_row recursive_history ih ?mulr0 ?addr0.
  by case: eqP => // ->; rewrite p0 mul0r min_r ?ler01.
rewrite normE => [|z]; last exact: excess_ge0.
by rewrite excessE p0 sub0r max_r ?oppr_le0 // mul0r if_same.
Qed.

Lemma acceptance_step p q k : law p -> law q ->
  1 - acceptance k.+1 (iid q) (recursive q [::] p)
  = (\sum_y excess p q y) * (1 - acceptance k (iid q) (recursive q [::] (norm (excess p q) p))).
Proof.
move=> pl ql; have [[p0 p1] [q0 q1]] := (pl, ql); have [Q0 Q1] := iid_law k ql.
set r := norm (excess p q) p; pose t y := Num.min 1 (p y / q y).
rewrite !acceptanceE sum_drafts; set a := \sum_(x <- drafts k) _.
have rest : \sum_y excess p q y = 1 - \sum_y Num.min (p y) (q y).
  by rewrite -p1 -sumrB; apply: eq_bigr => y _; rewrite excess_min.
have step y : \sum_(x <- drafts k) iid q (y :: x) * (\sum_(z | z \in y :: x) row (y :: x) (recursive q [::] p (y :: x)) z)
    = q y * t y + (q y - q y * t y) * a.
  rewrite -[q y * t y in X in X + _]mulr1 -Q1 /a !mulr_sumr -big_split big_seq [RHS]big_seq; apply: eq_bigr => x.
  rewrite mem_drafts => /eqP sx; rewrite [iid q (y :: x)]/=.
  have rowE z : row (y :: x) (recursive q [::] p (y :: x)) z
      = (if y == z then t y else 0) + (1 - t y) * row x (recursive q [::] r x) z.
    by rewrite recursive_rejection_row recursive_history.
  under eq_bigr do rewrite rowE; rewrite big_split /= -mulr_sumr.
  rewrite -big_mkcondr (big_pred1 y) => [|z]; last by rewrite inE /= eq_sym; case: eqP; rewrite ?andbF.
  have more : (q y - q y * t y) * (\sum_(z | z \in y :: x) row x (recursive q [::] r x) z)
      = (q y - q y * t y) * (\sum_(z | z \in x) row x (recursive q [::] r x) z).
    have [yx|yx] := boolP (y \in x).
      by congr (_ * _); apply: eq_bigl => z; rewrite inE; case: eqP => // ->; rewrite yx.
    rewrite (bigD1 y) ?inE ?eqxx //= mulrDr [X in X + _](_ : _ = 0) ?add0r; last first.
      rewrite taken_min //; have [le|lt] := leP (q y) (p y); first by rewrite subrr mul0r.
      rewrite recursive_zero ?mulr0 //; apply: (mulfI (x := \sum_z excess p q z)).
        apply/eqP => /psumr_eq0P e; have le z : p z <= q z.
          have /eqP := e (fun z _ => excess_ge0 p q z) z isT; rewrite excess_min subr_eq0 => /eqP->.
          by rewrite le_minl lexx orbT.
        have /psumr_eq0P z0 : \sum_z (q z - p z) = 0 by rewrite sumrB p1 q1 subrr.
        have : q y - p y = 0 by apply: z0 => // z _; rewrite subr_ge0.
        by move: lt; lra.
      by rewrite mulr0 norm_mass; [rewrite excess_min min_l ?subrr // ltW | exact: excess_ge0].
    congr (_ * _); apply: eq_bigl => z; rewrite inE; case: eqP => [->|_]; first by rewrite (negbTE yx).
    by rewrite andbT.
  move: more; set A := \sum_(z | _) _; set B := \sum_(z | z \in x) _; set i := iid q x; move=> more.
  transitivity (q y * t y * i + i * ((q y - q y * t y) * A)); first by ring.
  by rewrite more; ring.
under eq_bigr do rewrite step; rewrite big_split /= -mulr_suml sumrB q1 rest.
have -> : \sum_y q y * t y = \sum_y Num.min (p y) (q y) by apply: eq_bigr => y _; exact: taken_min.
by ring.
Qed.

Theorem recursive_rejection_acceptance p q k : law p -> law q ->
  acceptance k (iid q) (recursive q [::] p) = 1 - beyond p q (walk p q k 0).
Proof.
move=> pl ql; have [q0 _] := ql; pose left r s := forall y, beyond p q s * r y = Num.max (p y - s * q y) 0.
have walkE k' s : walk p q k'.+1 s = walk p q k' (s + beyond p q s) by rewrite /walk iterSr.
suff e r s : law r -> left r s -> beyond p q s * (1 - acceptance k (iid q) (recursive q [::] r)) = beyond p q (walk p q k s).
  have := e p 0 pl; rewrite beyond0 // mul1r => <-; first by rewrite subKr.
  by move=> y; rewrite beyond0 // mul1r mul0r subr0 max_l //; case: pl.
elim: k r s => [|k ih] r s rl ls.
  by rewrite acceptanceE sum_drafts0 big_pred0 // mulr0 subr0 mulr1.
have exE z : beyond p q s * excess r q z = Num.max (p z - (s + beyond p q s) * q z) 0.
  rewrite excessE maxr_pmulr ?beyond_ge0 // mulr0 mulrBr ls.
  have b0 := mulr_ge0 (beyond_ge0 p q s) (q0 z); rewrite mulrDl.
  by case: (leP (p z - s * q z) 0) => c; [rewrite !max_r //; lra | congr (Num.max _ _); ring].
have sumE : beyond p q (s + beyond p q s) = beyond p q s * (\sum_z excess r q z).
  by rewrite mulr_sumr [LHS]/beyond; apply: eq_bigr => z _; rewrite -exE.
rewrite acceptance_step // walkE -(ih (norm (excess r q) r)) ?sumE ?mulrA //; first exact: excess_law.
by move=> y; rewrite sumE -exE -mulrA norm_mass // => z; exact: excess_ge0.
Qed.

Theorem recursive_rejection_at_most_k_seq p q g k : (0 < k)%N -> 0 < g -> law p -> law q ->
  g * beta g p q <= p_acc g p q k ->
  acceptance k (iid q) (recursive q [::] p) <= p_acc g p q k <= acceptance k (iid q) (k_seq g p q).
Proof.
move=> k0 g0 pl ql up; rewrite k_seq_acceptance // andbT recursive_rejection_acceptance //.
have power := walk_power k0 pl ql; have S0 := walk_gt0 q k0 pl; move: power S0; set s := walk p q k 0 => power S0.
have [sg|gs] := leP s g.
  by apply: le_trans up; rewrite -beyond_min // -scaled_beta // scaled_beta_increases.
rewrite /p_acc ler_add2l ler_opp2; apply: le_trans power.
have := beta_decreases g0 (ltW gs) pl ql; have := beta_le1 g p ql; have := beta_le1 s p ql => *.
by rewrite ler_expn2r // ?nnegrE; lra.
Qed.
End Rules.

Theorem k_seq_at_least_recursive_rejection (R : rcfType) (T : finType) (p q : T -> R) k : (0 < k)%N -> law p -> law q ->
  exists2 g, 1 <= g <= k%:R & let rule := k_seq (real R) (index_enum T) g p q in
    lossless k (iid q) p rule
    /\ acceptance k (iid q) (recursive_rejection (real R) (index_enum T) (fun _ => q) [::] p) <= acceptance k (iid q) rule.
Proof.
move=> k0 pl ql; have [g gk e] := root_exists pl ql k0; exists g => //.
have g0 : 0 < g by rewrite (lt_le_trans ltr01) //; case/andP: gk.
split; first by apply: k_seq_lossless => //; rewrite e.
have up : g * beta g p q <= p_acc g p q k by rewrite e.
by have /andP[] := recursive_rejection_at_most_k_seq k0 g0 pl ql up; exact: le_trans.
Qed.

Print Assumptions recursive_rejection_acceptance.
Print Assumptions recursive_rejection_at_most_k_seq.
Print Assumptions k_seq_at_least_recursive_rejection.
