(* What K-SEQ itself accepts, beside its tests and beside the optimum.

   In the notation of k_seq.v; x and rho_k = 1 - x^k are those of k_seq_sharp.v; the optimum is the least bound of hall.v.
   THEOREM (k_seq_between). For 0 < g <= k with p_acc <= g beta K-SEQ accepts at least 1 - (1 - 1/k)^k of the optimum, and no more than it.
   THEOREM (k_seq_accepts_by_tests). Where p_acc = g beta > 0, that is at gamma*, K-SEQ accepts just what its tests do: what it
   draws from the rest was never drafted.
   THEOREM (k_seq_rule_share, k_seq_rule_share_tight). So the sharp share is one of the rule: at gamma* it accepts at least rho_k of what
   any lossless rule accepts, for all p and q; for some p, q on two tokens it accepts rho_k, and another lossless rule everything.

   Any finite set of tokens, any real field, any k >= 1 (sharp share: k >= 2). *)

From Draft Require Import head problem bound hall k_seq k_seq_sharp.

Section Rule.
Variables (R : realFieldType) (T : finType).
Implicit Types (p q : T -> R) (g x : R).
Notation rule_at g p q := (k_seq (real R) (index_enum T) g p q).

Theorem k_seq_between k p q g : (0 < k)%N -> 0 < g -> g <= k%:R -> law p -> law q -> p_acc g p q k <= g * beta g p q ->
  (1 - (1 - k%:R^-1) ^+ k) * least_cut (real R) (index_enum T) k (iid q) p
  <= acceptance k (iid q) (rule_at g p q) <= least_cut (real R) (index_enum T) k (iid q) p.
Proof.
move=> k0 g0 gk pl ql ok; have Ql := iid_law k ql.
have [[w _ [pr out e]] upper] := least_cut_is_best Ql k0 pl; apply/andP; split; last first.
  by apply: upper; [exact: k_seq_proper | exact: k_seq_lossless].
apply: le_trans (k_seq_acceptance k g0 pl ql); rewrite -e; exact: k_seq_share.
Qed.

Lemma in_turn_rest (ts : seq R) : 1 - \sum_(a <- in_turn (real R) ts) a = \prod_(t <- ts) (1 - t).
Proof.
elim: ts => [|t ts ih]; first by rewrite !big_nil subr0.
by rewrite /= !big_cons big_map -mulr_sumr -ih mulrBr mulr1 opprD addrA.
Qed.

Theorem k_seq_accepts_by_tests k p q g : 0 < g -> law p -> law q -> 0 < beta g p q -> p_acc g p q k = g * beta g p q ->
  acceptance k (iid q) (rule_at g p q) = p_acc g p q k.
Proof.
move=> g0 pl ql b0 e; have [[p0 p1] [q0 q1]] := (pl, ql).
have Sg : tries (real R) (beta g p q) k = g.
  have bn : beta g p q != 0 by rewrite gt_eqF.
  by apply: (mulfI bn); rewrite tries_acc -/(p_acc g p q k) e mulrC.
have -> : p_acc g p q k = \sum_y (taken (real R) g p q y * tries (real R) (beta g p q) k + (1 - beta g p q) ^+ k * 0).
  by rewrite /p_acc -tries_acc big_split /= -mulr_suml -/(beta _ _ _) mulr0 sumr_const mul0rn; lra.
under [RHS]eq_bigr => y _ do rewrite -(@tests_output _ _ k p q g (fun=> 0) y) //.
rewrite exchange_big acceptanceE /= big_seq [RHS]big_seq; apply: eq_bigr => x xk.
rewrite -mulr_sumr; have [->|ne] := eqVneq (iid q x) 0; first by rewrite !mul0r.
congr (_ * _); rewrite big_mkcond; apply: eq_bigr => y _; rewrite !rowE /= mulr0 addr0.
case: ifPn => yx; last first.
  apply/esym/big1_seq => -[z a] /= zin; case: eqP => // ezy; case/negP: yx; rewrite -ezy; exact: mem_zip_fst zin.
rewrite in_turn_rest massE -/(beta g p q) (_ : size x = k); last by move: xk; rewrite mem_drafts => /eqP.
rewrite Sg [X in _ + X](_ : _ = 0) ?addr0 //.
have qx z : z \in x -> 0 < q z.
  move=> zx; rewrite lt_def q0 andbT; move: ne; apply: contra_neq => qz.
  by elim: (x) zx => [//|a l ih]; rewrite inE /= => /orP[/eqP<-|/ih->]; rewrite ?qz ?mul0r ?mulr0.
have one z : z \in x -> g * q z <= p z -> \prod_(t <- [seq least (real R) 1 (p w / (g * q w)) | w <- x]) (1 - t) = 0.
  move=> zx le; apply/eqP; rewrite prodf_seq_eq0; apply/hasP; exists (least (real R) 1 (p z / (g * q z))); first exact: map_f.
  by rewrite /= leastE min_l ?subrr // ler_pdivl_mulr ?mul1r // mulr_gt0 // qx.
have [le|lt] := leP (g * q y) (p y); first by rewrite (one y) // mul0r.
have ex z : excess p (fun w => taken (real R) g p q w * g) z = p z - Num.min (g * q z) (p z).
  have tE : taken (real R) g p q z * g = Num.min (g * q z) (p z).
    by rewrite takenE minr_pmull ?(ltW g0) // divfK ?gt_eqF // [q z * g]mulrC.
  rewrite excess_min tE; case: (leP (g * q z) (p z)) => c; first by rewrite (min_r c).
  by rewrite minxx.
rewrite normE => [|z]; last exact: excess_ge0.
case: eqP => [/psumr_eq0P z0|_]; last by rewrite ex min_r ?(ltW lt) // subrr mul0r mulr0.
have h : forall z, p z <= g * q z.
  move=> z; have := z0 (fun w _ => excess_ge0 _ _ w) z isT; rewrite ex; case: (leP (g * q z) (p z)) => [c|/ltW //]; lra.
have acc1 : g * beta g p q = 1 by rewrite scaled_beta // -p1; apply: eq_bigr => z _; rewrite min_r.
have : (1 - beta g p q) ^+ k = 0 by move: e; rewrite /p_acc acc1; lra.
move/eqP; rewrite expf_eq0 => /andP[_ /eqP b1].
have g1 : g = 1 by move: acc1; rewrite (_ : beta g p q = 1) ?mulr1 //; lra.
have : \sum_z (g * q z - p z) = 0 by rewrite sumrB -mulr_sumr q1 p1 g1 mulr1 subrr.
move/psumr_eq0P => all0; have : g * q y - p y = 0 by apply: all0 => // z _; rewrite subr_ge0 h.
by move=> eq0; move: lt; rewrite -subr_gt0 eq0 ltxx.
Qed.

Theorem k_seq_rule_share n p q g x other : (0 < n)%N -> 0 < g -> law p -> law q -> p_acc g p q n.+1 = g * beta g p q ->
  0 <= x -> x <= 1 -> sharp n x -> proper n.+1 (iid q) other -> lossless n.+1 (iid q) p other ->
  (1 - x ^+ n.+1) * acceptance n.+1 (iid q) other <= acceptance n.+1 (iid q) (rule_at g p q).
Proof.
move=> n0 g0 pl ql e x0 x1 sx ok out; apply: le_trans (k_seq_acceptance n.+1 g0 pl ql).
by apply: k_seq_sharp_share => //; rewrite e.
Qed.
End Rule.

Theorem k_seq_rule_share_tight (R : realFieldType) n (x : R) : (0 < n)%N -> 0 < x -> x < 1 -> sharp n x ->
  exists p : bool -> R, exists q : bool -> R, exists g other, let rule := k_seq (real R) (index_enum _) g p q in
  [/\ law p /\ law q, 0 < g /\ p_acc g p q n.+1 = g * beta g p q,
      lossless n.+1 (iid q) p rule /\ acceptance n.+1 (iid q) rule = 1 - x ^+ n.+1
    & [/\ proper n.+1 (iid q) other, lossless n.+1 (iid q) p other & acceptance n.+1 (iid q) other = 1]].
Proof.
move=> n0 x0 x1 e; have [p [q [g [other [[pl ql] [ok out] one [g0 at_g] share]]]]] := k_seq_share_tight n0 x0 x1 e.
exists p, q, g, other; split=> //; split; first by apply: k_seq_lossless => //; rewrite at_g.
rewrite -share; apply: k_seq_accepts_by_tests => //.
by rewrite -(pmulr_rgt0 _ g0) -at_g share subr_gt0 exprn_ilt1 // ltW.
Qed.

Print Assumptions k_seq_between.
Print Assumptions k_seq_accepts_by_tests.
Print Assumptions k_seq_rule_share.
Print Assumptions k_seq_rule_share_tight.
