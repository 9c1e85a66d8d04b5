(* Hall's theorem for masses on sets of tokens.

   THEOREM (transport). Let every set S of tokens hold a mass s(S) >= 0, and every token y have room for m(y). If for every
   set H
       sum of s(S) over the S inside H  <=  m(H),
   then the masses can be handed out: every nonempty S has a law w_S on its own tokens with sum_S s(S) w_S(y) <= m(y).

   Any finite set of tokens and any real field: the proof moves mass between finitely many sets, and takes no limits. Mass is
   moved from a set S to S without one of its tokens a as long as the condition allows it. Either all of it goes, or a set H
   is reached that holds S without a, not a, and has no room left (is tight). Then every set that does not lie in H can do
   without the tokens of H, since s(inside H) and m(H) are both submodular and equal there; S becomes {a}. *)

From Draft Require Import head.

Section Transport.
Variables (R : realFieldType) (T : finType).
Implicit Types (s : {set T} -> R) (m : T -> R) (w : {set T} -> T -> R) (S H K Z : {set T}).

Definition within s H := \sum_(S : {set T} | S \subset H) s S.
Definition room m H := \sum_(y in H) m y.
Definition fits s m := forall H, within s H <= room m H.
(* Every nonempty set has a law on its tokens. *)
Definition shares w :=
  forall S, S != set0 -> [/\ forall y, 0 <= w S y, forall y, y \notin S -> w S y = 0 & \sum_y w S y = 1].
Definition handed_out s m := exists2 w, shares w & forall y, \sum_S s S * w S y <= m y.
(* What is left to decide: 0 when all masses stand on single tokens. *)
Definition undecided s := (\sum_(S : {set T} | s S != 0%R) #|S|.-1)%N.

(** Nothing undecided. *)
Lemma decided s m : (forall S, 0 <= s S) -> fits s m -> (forall S, s S != 0 -> (#|S| <= 1)%N) -> handed_out s m.
Proof.
move=> s0 fit single; exists (fun S y => if y \in S then #|S|%:R^-1 else 0) => [S|y].
  rewrite -card_gt0 => S0; split=> [y|y /negbTE->//|].
    by case: ifP => // _; rewrite invr_ge0 ler0n.
  by rewrite -big_mkcond /= sumr_const -[LHS]mulr_natr mulVf // pnatr_eq0 -lt0n.
apply: le_trans (_ : room m [set y] <= _); last by rewrite /room big_set1.
apply: le_trans (fit _); rewrite /within [leRHS]big_mkcond; apply: ler_sum => S _.
have [->|ne] := eqVneq (s S) 0; first by rewrite mul0r; case: ifP.
case: ifP => [yS|_]; last by rewrite mulr0; case: ifP.
have S1 : #|S| = 1%N by apply/eqP; rewrite eqn_leq (single S ne) card_gt0; apply/set0Pn; exists y.
move/eqP: S1 yS => /cards1P[z ->]; rewrite inE => /eqP->.
by rewrite subxx cards1 invr1 mulr1.
Qed.

(** Sets may lose tokens. *)
Section Push.
Variables (s : {set T} -> R) (c : {set T} -> {set T}).
Hypotheses (c_sub : forall Z, c Z \subset Z) (c_nonempty : forall Z, Z != set0 -> c Z != set0).
Definition push S := \sum_(Z | c Z == S) s Z.

Lemma push_sum (f : {set T} -> R) : \sum_S push S * f S = \sum_Z s Z * f (c Z).
Proof.
rewrite [RHS](partition_big c predT) //=; apply: eq_bigr => S _.
by rewrite mulr_suml; apply: eq_bigr => Z /eqP->.
Qed.
Lemma push_within K : within push K = \sum_(Z | c Z \subset K) s Z.
Proof.
rewrite [RHS](partition_big c (fun S => S \subset K)) //=; apply: eq_bigr => S SK.
by apply: eq_bigl => Z; case: eqP => [->|]; rewrite ?SK ?andbF.
Qed.
Lemma push_handed_out m : handed_out push m -> handed_out s m.
Proof.
move=> [w ws h]; exists (fun Z => w (c Z)) => [Z Z0|y]; last by rewrite -(push_sum (fun S => w S y)).
have [w0 out one] := ws _ (c_nonempty Z0); split=> // y yZ.
by apply: out; apply: contra yZ; exact: subsetP (c_sub Z) y.
Qed.
Lemma push_undecided : (undecided push <= \sum_(Z | s Z != 0%R) #|c Z|.-1)%N.
Proof.
rewrite /undecided [leqRHS](partition_big c predT) //= [leqLHS]big_mkcond; apply: leq_sum => S _.
case: ifPn => // ne; have [Z /andP[/eqP cZ sZ]|none] := pickP (fun Z => (c Z == S) && (s Z != 0)).
  by rewrite (bigD1 Z) ?sZ ?cZ ?eqxx // leq_addr.
case/eqP: ne; rewrite /push big1 // => Z cZ; apply/eqP; move: (none Z); rewrite cZ /=.
by move/negbFE.
Qed.
End Push.

(** Mass d moves from S to S without a. *)
Section Move.
Variables (s : {set T} -> R) (m : T -> R) (S : {set T}) (a : T) (d : R).
Hypotheses (s0 : forall Z, 0 <= s Z) (aS : a \in S) (S2 : (1 < #|S|)%N) (d0 : 0 <= d) (dS : d <= s S).
Definition moved Z := s Z - (if Z == S then d else 0) + (if Z == S :\ a then d else 0).

Lemma rest_neq : (S :\ a == S) = false.
Proof. by apply/eqP => /setP/(_ a); rewrite !inE eqxx aS. Qed.
Lemma moved_ge0 Z : 0 <= moved Z.
Proof.
have := s0 Z; rewrite /moved; case: eqP => [->|_]; case: eqP => _; lra.
Qed.
Lemma moved_sum (P : pred {set T}) (f : {set T} -> R) : \sum_(Z | P Z) moved Z * f Z
  = \sum_(Z | P Z) s Z * f Z - (if P S then d * f S else 0) + (if P (S :\ a) then d * f (S :\ a) else 0).
Proof.
have one (A : {set T}) : \sum_(Z | P Z) (if Z == A then d else 0) * f Z = if P A then d * f A else 0.
  rewrite -[RHS]mulr1; case: (boolP (P A)) => PA; last first.
    rewrite mul0r big1 // => Z PZ; case: eqP => [e|_]; last by rewrite mul0r.
    by rewrite -e PZ in PA.
  by rewrite (bigD1 A) //= eqxx big1 ?addr0 ?mulr1 // => Z /andP[_ /negbTE->]; rewrite mul0r.
rewrite -!one -sumrB -big_split; apply: eq_bigr => Z _ /=.
by rewrite /moved mulrDl mulrBl.
Qed.
Lemma moved_within H : within moved H = within s H + (if (S :\ a \subset H) && (a \notin H) then d else 0).
Proof.
have := moved_sum (fun Z => Z \subset H) (fun _ => 1).
under eq_bigr do rewrite mulr1; under [in RHS]eq_bigr do rewrite mulr1; rewrite !mulr1 => e.
rewrite [LHS]e -[\sum_(Z | _) s Z]/(within s H).
have -> : (S \subset H) = (S :\ a \subset H) && (a \in H) by rewrite -{1}(setD1K aS) subUset sub1set andbC.
by case: (S :\ a \subset H); case: (a \in H) => /=; lra.
Qed.
Lemma moved_fits : fits s m -> (forall H, S :\ a \subset H -> a \notin H -> within s H + d <= room m H) -> fits moved m.
Proof.
by move=> fit gap H; rewrite moved_within; case: ifPn => [/andP[]|_]; [exact: gap | rewrite addr0; exact: fit].
Qed.
Lemma moved_handed_out : handed_out moved m -> handed_out s m.
Proof.
move=> [w ws h]; have [sS|sS] := eqVneq (s S) 0.
  exists w => // y; apply: le_trans (h y); have dd : d = 0 by apply/eqP; rewrite eq_le d0 andbT -sS.
  by apply: ler_sum => Z _; rewrite /moved dd !if_same subr0 addr0.
have S0 : 0 < s S by rewrite lt_def sS s0.
exists (fun Z y => if Z == S then (s S - d) / s S * w S y + d / s S * w (S :\ a) y else w Z y) => [Z Z0|y].
  case: eqP => [->|_]; last exact: ws.
  have Sn : S != set0 by rewrite -card_gt0 (ltn_trans _ S2).
  have Sa : S :\ a != set0 by rewrite -card_gt0; move: S2; rewrite (cardsD1 a S) aS.
  have [[u0 uout u1] [v0 vout v1]] := (ws _ Sn, ws _ Sa).
  have f1 : 0 <= (s S - d) / s S by rewrite divr_ge0 ?subr_ge0.
  have f2 : 0 <= d / s S by rewrite divr_ge0.
  split=> [y|y yS|]; first by rewrite addr_ge0 // mulr_ge0.
    by rewrite uout // vout ?mulr0 ?addr0 // inE negb_and yS orbT.
  by rewrite big_split /= -!mulr_sumr u1 v1 !mulr1 -mulrDl subrK divff.
apply: le_trans (h y); rewrite (moved_sum predT (fun Z => w Z y)) /= [\sum_i s i * w i y](bigD1 S) //= (bigD1 S) //= eqxx.
rewrite (eq_bigr (fun Z => s Z * w Z y)) => [|Z /negbTE-> //].
have -> : s S * ((s S - d) / s S * w S y + d / s S * w (S :\ a) y) = (s S - d) * w S y + d * w (S :\ a) y.
  have e x : s S * (x / s S) = x by rewrite mulrC divfK.
  by rewrite mulrDr !(mulrA (s S) (_ / _)) !e.
lra.
Qed.
End Move.

(** Beside a tight set H0 its tokens are not needed. *)
Section Contract.
Variables (s : {set T} -> R) (m : T -> R) (H0 : {set T}).
Hypotheses (fit : fits s m) (tight : within s H0 = room m H0) (s0 : forall Z, 0 <= s Z).
Definition contract Z := if Z \subset H0 then Z else Z :\: H0.

Lemma contract_sub Z : contract Z \subset Z.
Proof. by rewrite /contract; case: ifP; rewrite ?subsetDl. Qed.
Lemma contract_nonempty Z : Z != set0 -> contract Z != set0.
Proof. by rewrite /contract; case: ifPn => // h _; rewrite setD_eq0. Qed.
Lemma room_modular K : room m (K :&: H0) + room m (K :|: H0) = room m K + room m H0.
Proof.
rewrite /room !(big_setID H0 (A := K :|: H0)) /= setIUl setIid (setUidPr (subsetIr K H0)) setDUl setDv setU0.
by rewrite [in RHS](big_setID H0) /=; lra.
Qed.
Lemma contract_fits : fits (push s contract) m.
Proof.
move=> K; rewrite push_within.
have e : \sum_(Z | contract Z \subset K) s Z + within s H0 = within s (K :&: H0) + within s (K :|: H0).
  rewrite (bigID (fun Z => Z \subset H0)) /= [within s (K :|: H0)](bigID (fun Z => Z \subset H0)) /=.
  have -> : \sum_(Z | (contract Z \subset K) && (Z \subset H0)) s Z = within s (K :&: H0).
    by apply: eq_bigl => Z; rewrite /contract subsetI; case: ifP => // _; rewrite !andbF.
  have -> : \sum_(Z : {set T} | (Z \subset K :|: H0) && (Z \subset H0)) s Z = within s H0.
    by apply: eq_bigl => Z; case: (boolP (Z \subset H0)) => h; rewrite ?andbF ?andbT // (subset_trans h) ?subsetUr.
  have -> : \sum_(Z | (contract Z \subset K) && ~~ (Z \subset H0)) s Z = \sum_(Z : {set T} | (Z \subset K :|: H0) && ~~ (Z \subset H0)) s Z.
    apply: eq_bigl => Z; rewrite /contract; case: ifP; rewrite ?andbF // => _.
    by rewrite subDset setUC.
  lra.
have := fit (K :&: H0); have := fit (K :|: H0); have := room_modular K; lra.
Qed.
End Contract.

Lemma undecided_moved s S a d (c : {set T} -> {set T}) : a \in S -> (1 < #|S|)%N -> s S != 0 ->
  (forall Z, c Z \subset Z) -> moved s S a d S = 0 \/ (#|c S| <= 1)%N ->
  (undecided (push (moved s S a d) c) < undecided s)%N.
Proof.
move=> aS S2 sS c_sub small; apply: leq_ltn_trans (push_undecided _ _) _.
have le Z : (#|c Z|.-1 <= #|Z|.-1)%N by rewrite -!subn1 leq_sub2r // subset_leq_card.
have ne := negbT (rest_neq aS).
apply: (@leq_ltn_trans (\sum_(Z | Z != S) (if (s Z != 0%R) || (Z == S :\ a) then #|Z|.-1 else 0))%N).
  rewrite big_mkcond (bigD1 S) //= [X in (X + _)%N](_ : _ = 0%N) ?add0n.
    apply: leq_sum => Z ZS; case: ifPn => // h; case: ifPn => [_|]; first exact: le.
    rewrite negb_or negbK => /andP[/eqP z1 z2]; case/eqP: h.
    by rewrite /moved z1 (negbTE ZS) (negbTE z2) subr0 addr0.
  by case: small => [->|]; [rewrite eqxx | case: ifP => // _; case: #|c S| => [|[]]].
apply: (@leq_ltn_trans (#|S :\ a|.-1 + \sum_(Z | Z != S) (if s Z != 0%R then #|Z|.-1 else 0))%N).
  rewrite (_ : #|S :\ a|.-1 = \sum_(Z | Z != S) (if Z == S :\ a then #|Z|.-1 else 0))%N; last first.
    by rewrite -big_mkcondr (big_pred1 (S :\ a)) // => Z /=; rewrite andbC; case: eqP => [->|].
  by rewrite -big_split; apply: leq_sum => Z _ /=; case: (s Z != 0); case: (Z == S :\ a); rewrite ?addn0 ?leq_addl.
rewrite /undecided [leqRHS]big_mkcond [leqRHS](bigD1 S) //= sS ltn_add2r.
by move: S2; rewrite (cardsD1 a S) aS; case: #|S :\ a|.
Qed.

Theorem transport s m : (forall S, 0 <= s S) -> fits s m -> handed_out s m.
Proof.
have [n] := ubnP (undecided s); elim: n s => // n ih s; rewrite ltnS => un s0 fit.
have [S /andP[sS S2]|none] := pickP (fun S => (s S != 0) && (1 < #|S|)%N); last first.
  by apply: decided => // S sS; rewrite leqNgt; apply/negP => S2; move: (none S); rewrite sS S2.
have /card_gt0P[a aS] : (0 < #|S|)%N by exact: ltn_trans S2.
pose candidate H := (S :\ a \subset H) && (a \notin H).
have start : candidate (S :\ a) by rewrite /candidate subxx !inE eqxx.
have [H0 /andP[SH aH] least] := arg_minP (fun H => room m H - within s H) start.
set d := room m H0 - within s H0 in least.
have gap H : S :\ a \subset H -> a \notin H -> within s H + d <= room m H.
  by move=> h1 h2; have := least H; rewrite /candidate h1 h2 => /(_ isT); lra.
have [all_goes|some_goes] := leP (s S) d.
  have fit' : fits (moved s S a (s S)) m.
    by apply: moved_fits => // H h1 h2; apply: le_trans (gap H h1 h2); rewrite ler_add2l.
  apply: (@moved_handed_out s m S a (s S)) => //.
  have ge0 Z : 0 <= moved s S a (s S) Z by exact: moved_ge0.
  apply: (@push_handed_out _ id) => //; apply: ih.
  - apply: leq_trans un; apply: (undecided_moved aS S2 sS) => //.
    by left; rewrite /moved eqxx subrr add0r eq_sym rest_neq.
  - by move=> Z; apply: sumr_ge0 => Z' _; exact: ge0.
  - by move=> K; rewrite push_within; exact: fit'.
have d0 : 0 <= d by have := fit H0; rewrite /d; lra.
have dS := ltW some_goes.
have fit' : fits (moved s S a d) m by apply: moved_fits.
have ge0 Z : 0 <= moved s S a d Z by exact: moved_ge0.
have tight : within (moved s S a d) H0 = room m H0 by rewrite moved_within // SH aH /= /d; lra.
apply: (@moved_handed_out s m S a d) => //.
apply: (@push_handed_out _ (contract H0)) => [Z|Z|]; [exact: contract_sub | exact: contract_nonempty |].
apply: ih.
- apply: leq_trans un; apply: (undecided_moved aS S2 sS) => [Z|]; first exact: contract_sub.
  right; rewrite /contract (_ : S \subset H0 = false); last by apply/negP => /subsetP/(_ a aS); rewrite (negbTE aH).
  rewrite -(cards1 a) subset_leq_card //; apply/subsetP => z; rewrite !inE => /andP[zH zS].
  by apply: contraR zH => za; apply: (subsetP SH); rewrite !inE za.
- by move=> Z; apply: sumr_ge0 => Z' _; exact: ge0.
- exact: contract_fits.
Qed.

End Transport.

Print Assumptions transport.
