(* The numbers rho_k, K-SEQ's sharp shares.

   rho_k = 1 - x^k, x in (0, 1) the root of k^k x^(k-1) = (k-1)^(k-1) (1 + x + ... + x^(k-1)): `sharp (k - 1) x` (k_seq_sharp.v).
   THEOREM (sharp_between). x lies above y exactly where the right side, at y > 0, is the larger one.
   THEOREM (rho_numbers). rho_k in four decimals, rounded down, for k = 2, 3, 4, 5, 6, 8, 16 and 32, over any real field: two rational numbers
   with the root between them, computed over Coq's rationals and carried (carried.v). *)

From Coq Require Import QArith.
From Draft Require Import head problem k_seq_sharp carried.

Section Between.
Variable R : realFieldType.
Implicit Types (x y : R) (n : nat).
Definition left_side n y := n.+1%:R ^+ n.+1 * y ^+ n.
Definition right_side n y := n%:R ^+ n * \sum_(i < n.+1) y ^+ i.

Lemma sides n x y : 0 < x -> x <= y -> x ^+ n * (\sum_(i < n.+1) y ^+ i) <= y ^+ n * (\sum_(i < n.+1) x ^+ i).
Proof.
move=> x0 xy; have y0 := lt_le_trans x0 xy; rewrite !mulr_sumr; apply: ler_sum => i _.
have e (a : R) : a ^+ n = a ^+ i * a ^+ (n - i) by rewrite -exprD subnKC // -ltnS.
rewrite (e x) (e y).
have le : x ^+ (n - i) <= y ^+ (n - i) by rewrite ler_expn2r // nnegrE ltW.
have xy0 : 0 <= x ^+ i * y ^+ i by rewrite mulr_ge0 // exprn_ge0 // ltW.
have := ler_wpmul2l xy0 le; lra.
Qed.

Theorem sharp_between n x y : 0 < x -> sharp n x -> 0 < y ->
  (left_side n y < right_side n y -> y < x) /\ (right_side n y < left_side n y -> x < y).
Proof.
have cross (a b : R) : 0 < a -> a <= b -> right_side n b * a ^+ n <= right_side n a * b ^+ n.
  move=> a0 ab; rewrite /right_side -!mulrA; apply: ler_wpmul2l; first by rewrite exprn_ge0 ?ler0n.
  by rewrite [leLHS]mulrC [leRHS]mulrC sides.
have cross_left (a b : R) : left_side n b * a ^+ n = left_side n a * b ^+ n.
  by rewrite /left_side -!mulrA [b ^+ n * _]mulrC.
move=> x0 e y0; have {}e : left_side n x = right_side n x := e; split; apply: contraTT; rewrite -!leNgt => le.
  by rewrite -(ler_pmul2r (exprn_gt0 n x0)) cross_left e cross.
by rewrite -(ler_pmul2r (exprn_gt0 n x0)) cross_left e cross.
Qed.
End Between.

(** Computed over Coq's rationals. *)

Definition whole (n : nat) : Q := Qmake (Z.of_nat n) 1.
Definition rational_sides n (y : Q) : Q * Q :=
  (mul binary (pow binary (whole n.+1) n.+1) (pow binary y n),
    mul binary (pow binary (whole n) n) (sum_of binary (iota 0 n.+1) (pow binary y))).
Definition less (a b : Q) : bool := ~~ Qle_bool b a.
(* 1 - x^k is v rounded down to four decimals, with the root x between y and z. *)
Definition shown k (v y z : Q) : bool :=
  [&& less (zero binary) y, less (zero binary) z, less (rational_sides k.-1 y).1 (rational_sides k.-1 y).2,
    less (rational_sides k.-1 z).2 (rational_sides k.-1 z).1, Qle_bool v (sub binary (one binary) (pow binary z k))
    & Qle_bool (sub binary (one binary) (pow binary y k)) (add binary v (Qmake 1 10000))].

Section Numbers.
Variables (R : realFieldType) (rho : nat -> R).
Notation phi := (@of_rational R).
Hypothesis rhos : forall k, (1 < k)%N -> exists2 x, 0 < x < 1 & sharp k.-1 x /\ rho k = 1 - x ^+ k.

Lemma phi_whole n : phi (whole n) = n%:R.
Proof.
by rewrite /of_rational /= [of_positive R 1]/of_positive Pos2Nat.inj_1 divr1; case: n => //= n; rewrite /of_positive SuccNat2Pos.id_succ.
Qed.
(* Numerators and denominators are not to be written out. *)
#[local] Opaque of_rational.

Lemma shown_rho k v y z : (1 < k)%N -> shown k v y z -> phi v <= rho k < phi v + phi (Qmake 1 10000).
Proof.
have c := rational_operations R; have lessE a b : less a b = (phi a < phi b) by rewrite /less ltNge -[RHS]/(~~ leb (real R) _ _) -(phiL c).
have phi_pow a n : phi (pow binary a n) = phi a ^+ n by rewrite (carried_pow c) powE.
have sumE' n a : phi (sum_of binary (iota 0 n.+1) (pow binary a)) = \sum_(i < n.+1) phi a ^+ i.
  rewrite -[iota 0 _]map_id (@carried_sum _ _ _ _ phi c _ _ id _ _ (fun i => phi a ^+ i)) => [|i]; last exact: phi_pow.
  by rewrite sumE -[iota 0 _]/(index_iota 0 n.+1) big_mkord.
have sidesE n a : phi (rational_sides n a).1 = left_side n (phi a) /\ phi (rational_sides n a).2 = right_side n (phi a).
  by split; (etransitivity; first exact: (phiM c)); rewrite !phi_pow !phi_whole // sumE'.
move=> k1; have [x /andP[x0 x1] [e ->]] := rhos k1; case/and5P; rewrite !lessE (phi0 c) => y0 z0 ly lz /andP[].
have [l r] := sidesE k.-1 y; rewrite l r in ly; have [l' r'] := sidesE k.-1 z; rewrite l' r' in lz.
have leE a b : Qle_bool a b = (phi a <= phi b) := phiL c a b.
rewrite !leE (phiD c) !(phiB c) (phi1 c) !phi_pow /= => lo hi.
have yx := (sharp_between x0 e y0).1 ly; have xz := (sharp_between x0 e z0).2 lz.
have k0 : (k != 0)%N by rewrite -lt0n ltnW.
apply/andP; split; first by apply: le_trans lo _; rewrite ler_add2l ler_opp2 ler_expn2r ?nnegrE ?ltW.
by apply: lt_le_trans hi; rewrite ltr_add2l ltr_opp2 ltr_expn2r ?nnegrE ?ltW.
Qed.

Theorem rho_numbers :
  [/\ [/\ 0 <= rho 2 - phi (8888#10000) < phi (1#10000), 0 <= rho 3 - phi (8650#10000) < phi (1#10000),
          0 <= rho 4 - phi (8543#10000) < phi (1#10000) & 0 <= rho 5 - phi (8483#10000) < phi (1#10000)],
      0 <= rho 6 - phi (8444#10000) < phi (1#10000), 0 <= rho 8 - phi (8397#10000) < phi (1#10000),
      0 <= rho 16 - phi (8328#10000) < phi (1#10000) & 0 <= rho 32 - phi (8295#10000) < phi (1#10000)].
Proof.
have at_ k v y z : (1 < k)%N -> shown k v y z -> 0 <= rho k - phi v < phi (1#10000).
  by move=> k1 /(shown_rho k1); rewrite subr_ge0 ltr_subl_addl.
split; first split.
- by apply: (at_ _ _ (6667#20002)%Q (834#2501)%Q); [exact: isT | vm_compute].
- by apply: (at_ _ _ (99#193)%Q (79#154)%Q); [exact: isT | vm_compute].
- by apply: (at_ _ _ (202#327)%Q (118#191)%Q); [exact: isT | vm_compute].
- by apply: (at_ _ _ (24#35)%Q (251#366)%Q); [exact: isT | vm_compute].
- by apply: (at_ _ _ (11#15)%Q (872#1189)%Q); [exact: isT | vm_compute].
- by apply: (at_ _ _ (311#391)%Q (35#44)%Q); [exact: isT | vm_compute].
- by apply: (at_ _ _ (355#397)%Q (93#104)%Q); [exact: isT | vm_compute].
by apply: (at_ _ _ (299#316)%Q (387#409)%Q); [exact: isT | vm_compute].
Qed.
End Numbers.

Print Assumptions sharp_between.
Print Assumptions rho_numbers.
