(* Linear arithmetic over any real field: the tactic `lra`.

   Coq's certificate search for rational linear arithmetic (micromega), with its certificates checked over a realFieldType.
   No statement of the toolkit is proved here; this file only spares the others their bookkeeping of inequalities. *)

From Coq Require Import ZArith QArith micromega.OrderedRing micromega.RingMicromega micromega.EnvRing micromega.Tauto List micromega.Refl Psatz micromega.QMicromega.
From Coq Require micromega.VarMap.
From mathcomp Require Import all_ssreflect all_algebra.

Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section Field.
Variable R : realFieldType.

Definition le (x y : R) : Prop := x <= y.
Definition lt (x y : R) : Prop := x < y.

Lemma ring_laws : Ring_theory.ring_theory 0 1 +%R *%R (fun x y : R => x - y) -%R eq.
Proof.
by split=> *; rewrite ?(add0r, mul1r, mulrDl, addrN) //; first [exact: addrC | exact: addrA | exact: mulrC | exact: mulrA].
Qed.

Lemma ordered_ring : SOR 0 1 +%R *%R (fun x y : R => x - y) -%R eq le lt.
Proof.
split; rewrite /le /lt.
- by split=> // x y z -> ->.
- by move=> x1 x2 -> y1 y2 ->.
- by move=> x1 x2 -> y1 y2 ->.
- by move=> x1 x2 ->.
- by move=> x1 x2 -> y1 y2 ->.
- by move=> x1 x2 -> y1 y2 ->.
- exact: ring_laws.
- by move=> x; rewrite lexx.
- by move=> x y a b; apply/eqP; rewrite eq_le a.
- by move=> x y z; exact: le_trans.
- by move=> x y; rewrite lt_neqAle; split=> [/andP[/eqP]|[a /eqP b]] //; rewrite a b.
- by move=> x y; case: (ltgtP x y); [left | right; right | right; left].
- by move=> x y z; rewrite ler_add2l.
- by move=> x y; exact: mulr_gt0.
- by move/esym/eqP; rewrite oner_eq0.
Qed.

Definition of_positive (n : positive) : R := (Pos.to_nat n)%:R.
Definition of_integer (n : Z) : R := match n with Z0 => 0 | Zpos n => of_positive n | Zneg n => - of_positive n end.
Definition of_rational (x : Q) : R := of_integer (Qnum x) / of_positive (Qden x).

Lemma positive_neq0 n : of_positive n != 0.
Proof. by rewrite pnatr_eq0; case: (Pos2Nat.is_succ n) => m ->. Qed.
Lemma positive_gt0 n : 0 < of_positive n.
Proof. by rewrite ltr0n; case: (Pos2Nat.is_succ n) => m ->. Qed.
Lemma positiveM m n : of_positive (Pos.mul m n) = of_positive m * of_positive n.
Proof. by rewrite /of_positive Pos2Nat.inj_mul -natrM multE. Qed.
Lemma integerM m n : of_integer (Z.mul m n) = of_integer m * of_integer n.
Proof. by case: m n => [|m|m] [|n|n] /=; rewrite ?(mul0r, mulr0) ?positiveM ?(mulrN, mulNr, opprK). Qed.
Lemma integerN m : of_integer (Z.opp m) = - of_integer m.
Proof. by case: m => [|m|m] /=; rewrite ?oppr0 ?opprK. Qed.
Lemma positiveB m n : Pos.lt m n -> of_positive (Pos.sub n m) = of_positive n - of_positive m.
Proof.
move=> c; rewrite /of_positive Pos2Nat.inj_sub // minusE natrB //.
apply: ltnW; apply/ssrnat.ltP; move: c; rewrite Pos2Nat.inj_lt; exact.
Qed.
Lemma integer_sub m n : of_integer (Z.pos_sub m n) = of_positive m - of_positive n.
Proof.
rewrite Z.pos_sub_spec; case: Pos.compare_spec => [->|c|c] /=; first by rewrite subrr.
  by rewrite positiveB // opprB.
by rewrite positiveB.
Qed.
Lemma integerD m n : of_integer (Z.add m n) = of_integer m + of_integer n.
Proof.
have pD a b : of_positive (Pos.add a b) = of_positive a + of_positive b.
  by rewrite /of_positive Pos2Nat.inj_add -natrD plusE.
case: m n => [|m|m] [|n|n] /=; rewrite ?(add0r, addr0) ?integer_sub ?pD ?opprD //.
by rewrite addrC.
Qed.
Lemma integer_le m n : Z.le m n -> of_integer m <= of_integer n.
Proof.
move=> mn; rewrite -subr_ge0 -integerN -integerD.
have : Z.le 0 (Z.add n (Z.opp m)) by apply/Zle_minus_le_0.
by case: (Z.add n (Z.opp m)) => [|k|k] //= _; exact/ltW/positive_gt0.
Qed.
Lemma integer_inj m n : of_integer m = of_integer n -> m = n.
Proof.
move=> mn; have : of_integer (Z.sub m n) = 0 by rewrite /Z.sub integerD integerN mn subrr.
case e: (Z.sub m n) => [|k|k] /=; first by move=> _; apply/Zminus_eq.
  by move/eqP; rewrite (negbTE (positive_neq0 k)).
by move/eqP; rewrite oppr_eq0 (negbTE (positive_neq0 k)).
Qed.

Lemma rationals : SORaddon 0 1 +%R *%R (fun x y : R => x - y) -%R eq le
  (Qmake Z0 1) (Qmake (Zpos 1) 1) Qplus Qmult Qminus Qopp Qeq_bool Qle_bool of_rational (fun n => n) (@pow_N R 1 *%R).
Proof.
have add x y : of_rational (Qplus x y) = of_rational x + of_rational y.
  by rewrite /of_rational /= integerD !integerM positiveM addf_div // positive_neq0.
have opp x : of_rational (Qopp x) = - of_rational x by rewrite /of_rational /= integerN mulNr.
split.
- split=> //.
  + by rewrite /of_rational /= mul0r.
  + by rewrite /of_rational /= /of_positive Pos2Nat.inj_1 divr1.
  + by move=> x y; rewrite /Qminus add opp.
  + by move=> x y; rewrite /of_rational /= integerM positiveM mulf_div.
  + move=> x y /Qeq_bool_eq; rewrite /Qeq /of_rational => e.
    by apply/eqP; rewrite eqr_div ?positive_neq0 // -[of_positive _]/(of_integer (QDen y)) -[of_positive (Qden x)]/(of_integer (QDen x)) -!integerM e.
- by split=> x n.
- move=> x y /Qeq_bool_neq ne /eqP; rewrite /of_rational eqr_div ?positive_neq0 //.
  rewrite -[of_positive _]/(of_integer (QDen y)) -[of_positive (Qden x)]/(of_integer (QDen x)) -!integerM.
  by move/eqP/integer_inj => e; apply: ne.
- move=> x y /Qle_bool_imp_le; rewrite /Qle /le /of_rational => e.
  rewrite ler_pdivr_mulr ?positive_gt0 // mulrAC ler_pdivl_mulr ?positive_gt0 //.
  by rewrite -[of_positive _]/(of_integer (QDen y)) -[of_positive (Qden x)]/(of_integer (QDen x)) -!integerM integer_le.
Qed.

(* What a formula says, by its relation. *)
Definition said (k : Tauto.kind) (o : Op2) (x y : R) : Tauto.rtyp k :=
  match k return Tauto.rtyp k with
  | Tauto.isProp => match o with
    | OpEq => x = y | OpNEq => ~ x = y | OpLe => le x y | OpGe => le y x | OpLt => lt x y | OpGt => lt y x end
  | Tauto.isBool => match o with
    | OpEq => x == y | OpNEq => x != y | OpLe => x <= y | OpGe => y <= x | OpLt => x < y | OpGt => y < x end
  end.

Definition value (env : PolEnv R) : PExpr Q -> R :=
  eval_pexpr +%R *%R (fun x y => x - y) -%R of_rational (fun n => n) (@pow_N R 1 *%R) env.

Definition meaning (env : PolEnv R) (k : Tauto.kind) (f : Formula Q) : Tauto.rtyp k :=
  let (a, o, b) := f in said k o (value env a) (value env b).

Lemma certified f w : QTautoChecker f w = true -> forall env, eval_bf (meaning env) f.
Proof.
have same env k f0 : Tauto.hold k (meaning env k f0)
    <-> eval_formula +%R *%R (fun x y : R => x - y) -%R eq le lt of_rational (fun n => n) (@pow_N R 1 *%R) env f0.
  case: f0 => a o b; case: k; case: o => //=; rewrite /is_true /le /lt /value; split=> //.
  - by move/eqP.
  - by move=> e; apply/eqP.
  - by move/eqP.
  - by move=> e; apply/eqP.
apply: (@tauto_checker_sound (PolEnv R) (Formula Q) (NFormula Q) unit qunsat qdeduce (Qnormalise unit) (Qnegate unit)
  (eval_nformula 0 +%R *%R eq le lt of_rational) _ _ _ meaning) => //.
- by move=> env d; exact: (eval_nformula_dec ordered_ring).
- by move=> [e o] h env; exact: (check_inconsistent_sound ordered_ring rationals e o h env).
- by move=> t t' u h env a b; exact: (nformula_plus_nformula_correct ordered_ring rationals env t t' a b h).
- by move=> env k t tg h; apply/same; apply/(cnf_normalise_correct ordered_ring rationals); exact: h.
- move=> env k t tg h; apply/Tauto.hold_eNOT; rewrite same.
  by apply/(cnf_negate_correct ordered_ring rationals); exact: h.
- move=> t w0 h env; rewrite /eval_tt.
  rewrite (@make_impl_map _ _ (eval_nformula 0 +%R *%R eq le lt of_rational env)) //.
  exact: (checker_nf_sound ordered_ring rationals (List.map fst t) w0 h env).
Qed.

(* Terms as the tactic reads them. *)
Inductive term := Atom of nat | Zero | One | Number of nat | Add of term & term | Opp of term | Mul of term & term.
Inductive relation := Le | Lt | Eq.

Fixpoint eval (atoms : seq R) (t : term) : R :=
  match t with
  | Atom i => nth 0 atoms i | Zero => 0 | One => 1 | Number n => n%:R
  | Add a b => eval atoms a + eval atoms b | Opp a => - eval atoms a | Mul a b => eval atoms a * eval atoms b
  end.
Fixpoint compile (t : term) : PExpr Q :=
  match t with
  | Atom i => PEX (Pos.of_succ_nat i) | Zero => PEc (Qmake Z0 1) | One => PEc (Qmake (Zpos 1) 1)
  | Number n => PEc (Qmake (Z.of_nat n) 1)
  | Add a b => PEadd (compile a) (compile b) | Opp a => PEopp (compile a) | Mul a b => PEmul (compile a) (compile b)
  end.
Definition relate (o : relation) (x y : R) : Prop := match o with Le => x <= y | Lt => x < y | Eq => x = y end.
Definition operator (o : relation) := match o with Le => OpLe | Lt => OpLt | Eq => OpEq end.
Fixpoint implies (atoms : seq R) (hyps : seq (term * relation * term)) : Prop :=
  match hyps with
  | (a, o, b) :: rest => relate o (eval atoms a) (eval atoms b) -> implies atoms rest
  | [::] => False
  end.
Fixpoint formula (hyps : seq (term * relation * term)) : BFormula (Formula Q) Tauto.isProp :=
  match hyps with
  | (a, o, b) :: rest =>
      Tauto.IMPL (Tauto.A Tauto.isProp (Build_Formula (compile a) (operator o) (compile b)) tt) None (formula rest)
  | [::] => Tauto.FF Tauto.isProp
  end.

Arguments Pos.to_nat : simpl never.
Arguments Pos.of_succ_nat : simpl never.

Lemma contradiction atoms hyps w : QTautoChecker (formula hyps) w = true -> implies atoms hyps.
Proof.
pose env (n : positive) := nth 0 atoms (Pos.to_nat n).-1.
have val t : value env (compile t) = eval atoms t.
  have one : of_rational (Qmake (Zpos 1) 1) = 1 by rewrite /of_rational /= /of_positive Pos2Nat.inj_1 divr1.
  elim: t => [i|||n|a ia b ib|a ia|a ia b ib]; rewrite /value /= -?/(value _ _) ?ia ?ib //.
  - by rewrite /Env.nth /env SuccNat2Pos.id_succ.
  - by rewrite /of_rational /= mul0r.
  - rewrite /of_rational /= [of_positive 1]/of_positive Pos2Nat.inj_1 divr1.
    by case: n => [|n] //=; rewrite /of_positive SuccNat2Pos.id_succ.
move/certified/(_ env); elim: hyps => [//|[[a o] b] rest ih] /= h.
move=> r; apply: ih; apply: h; move: r; rewrite !val.
by case: o.
Qed.

End Field.

(* Atoms are compared up to conversion: the same sum can stand there with two paths to the ring's structure. *)
Ltac position a l :=
  lazymatch l with
  | nil => constr:(0%N)
  | ?b :: ?r => match l with
      | _ => let same := match l with _ => unify a b end in constr:(0%N)
      | _ => let n := position a r in constr:(n.+1)
      end
  end.
Ltac insert a l :=
  lazymatch l with
  | nil => constr:(a :: nil)
  | ?b :: ?r => match l with
      | _ => let same := match l with _ => unify a b end in l
      | _ => let r' := insert a r in constr:(b :: r')
      end
  end.

(* Is it a numeral? *)
Ltac closed n := lazymatch n with | O => idtac | S ?m => closed m end.

Ltac atoms_of t l :=
  lazymatch t with
  | GRing.add ?a ?b => let l' := atoms_of a l in atoms_of b l'
  | GRing.mul ?a ?b => let l' := atoms_of a l in atoms_of b l'
  | GRing.opp ?a => atoms_of a l
  | GRing.zero _ => l
  | GRing.one _ => l
  | _ => match t with
         | GRing.natmul (GRing.one _) ?n => let _ := match goal with _ => closed n end in l
         | _ => insert t l
         end
  end.
Ltac reify t l :=
  lazymatch t with
  | GRing.add ?a ?b => let x := reify a l in let y := reify b l in constr:(Add x y)
  | GRing.mul ?a ?b => let x := reify a l in let y := reify b l in constr:(Mul x y)
  | GRing.opp ?a => let x := reify a l in constr:(Opp x)
  | GRing.zero _ => constr:(Zero)
  | GRing.one _ => constr:(One)
  | _ => match t with
         | GRing.natmul (GRing.one _) ?n => let _ := match goal with _ => closed n end in constr:(Number n)
         | _ => let n := position t l in constr:(Atom n)
         end
  end.
Ltac atoms_of_goal g l :=
  lazymatch g with
  | is_true (Order.le ?a ?b) -> ?r => let l := atoms_of a l in let l := atoms_of b l in atoms_of_goal r l
  | is_true (Order.lt ?a ?b) -> ?r => let l := atoms_of a l in let l := atoms_of b l in atoms_of_goal r l
  | ?a = ?b -> ?r => let l := atoms_of a l in let l := atoms_of b l in atoms_of_goal r l
  | False => l
  end.
Ltac reify_goal g l :=
  lazymatch g with
  | is_true (Order.le ?a ?b) -> ?r =>
      let x := reify a l in let y := reify b l in let z := reify_goal r l in constr:((x, Le, y) :: z)
  | is_true (Order.lt ?a ?b) -> ?r =>
      let x := reify a l in let y := reify b l in let z := reify_goal r l in constr:((x, Lt, y) :: z)
  | ?a = ?b -> ?r =>
      let x := reify a l in let y := reify b l in let z := reify_goal r l in constr:((x, Eq, y) :: z)
  | False => constr:(@nil (term * relation * term))
  end.

Ltac settle R :=
  lazymatch goal with
  | |- ?g =>
      let l := atoms_of_goal g (@nil (Num.RealField.sort R)) in
      let h := reify_goal g l in
      let f := eval vm_compute in (formula h) in
      let w := fresh "w" in
      wlra_Q w f;
      exact (@contradiction R l h w (eq_refl true <: QTautoChecker f w = true))
  end.

Ltac gather R :=
  repeat match goal with H : is_true (_ && _) |- _ => move/andP: H => [? ?] end;
  repeat match goal with H : _ /\ _ |- _ => destruct H end;
  repeat match goal with
  | H : is_true (@Order.le _ ?S ?a _) |- _ => let b := constr:(a : Num.RealField.sort R) in revert H
  | H : is_true (@Order.lt _ ?S ?a _) |- _ => let b := constr:(a : Num.RealField.sort R) in revert H
  | H : @eq ?S ?a _ |- _ => let b := constr:(a : Num.RealField.sort R) in revert H
  end.

Lemma by_contra_le (R : realFieldType) (a b : R) : (b < a -> False) -> a <= b.
Proof. by move=> h; rewrite leNgt; apply/negP. Qed.
Lemma by_contra_lt (R : realFieldType) (a b : R) : (b <= a -> False) -> a < b.
Proof. by move=> h; rewrite ltNge; apply/negP. Qed.
Lemma by_contra_eq (R : realFieldType) (a b : R) : (b < a -> False) -> (a < b -> False) -> a = b.
Proof. by move=> h1 h2; apply/eqP; rewrite eq_le !by_contra_le. Qed.

(* Goals a <= b, a < b, a = b over a real field, from the inequalities and equations in the context, by linear arithmetic;
   products count as unknowns. *)
Ltac lra :=
  intros;
  let go lem R := (apply lem; let H := fresh in intro H; gather R; settle R) in
  lazymatch goal with
  | R : realFieldType |- is_true (Order.le _ _) => go by_contra_le R
  | R : realFieldType |- is_true (Order.lt _ _) => go by_contra_lt R
  | R : realFieldType |- @eq _ _ _ => go by_contra_eq R
  | R : realFieldType |- False => gather R; settle R
  | R : realFieldType |- is_true (_ && _) => apply/andP; split; lra
  end.
