(* Traversal and recursive rejection on trees that follow what was drafted.

   A tree is drafted draw by draw: which node gets the next child, the youngest of its node, by which law it is drawn (from q without its
   elder siblings, say, or a point mass: a fixed token), and whether there is a next draw at all, are any functions of all that was
   drafted before and of coins. The number of draws is bounded; any finite set of tokens, any real field, any target.
   THEOREM (one_more_child). One child more, drawn by Q, the youngest of its node: the mean over it of the law of the text is what it was.
   THEOREM (adaptive_lossless). So the law of the text is a martingale along the drafting, and at its start, where the tree is the root
   alone, it is the target's: Traversal and recursive rejection (tests in drawing order, each by the law that the child was drawn by:
   without replacement, or any other) are lossless on all such trees.
   THEOREM (traversal_of_paths). Traversal of K paths as path_rules.v has it is Traversal of the tree in which each path is a chain. *)

From Draft Require Import head problem bound sampling path_rules block tree_rules.

Section Adaptive.
Variables (R : realFieldType) (T : finType) (p : seq T -> T -> R) (traversal : bool).
Hypothesis p_law : forall h, law (p h).
Implicit Types (h z : seq T) (w t : R) (r Q : T -> R) (f : forest R T) (a : seq nat).
Notation state := (state (real R) (index_enum T)).
Notation entry := (entry (real R) (index_enum T)).
Notation below := (below (real R) (index_enum T) traversal).
Notation refused := (refused (real R) (index_enum T) p traversal).
Notation accepted := (accepted (real R) (index_enum T) p traversal).
Notation text := (text (real R) (index_enum T) p traversal).
Notation goes_on := (goes_on (real R) p).

(* Every child was drawn by a law. *)
Fixpoint drawn f : Prop := if f is Child e Q _ f' then [/\ law Q, drawn e & drawn f'] else True.
Definition node w r := [/\ 0 <= w, w <= 1 & law r].

Lemma state_node w r f : node w r -> drawn f -> node (state w r f).1 (state w r f).2.
Proof.
elim: f => [//|e ih Q y f' _] n [Ql de df] /=; have [s0 s1 sl] := ih n de.
split; last by apply: norm_law => // c; exact: excess_ge0.
  by case/andP: (test01 (fun _ : seq T => (state w r e).2) [::] s0 s1 Ql).
by case/andP: (test01 (fun _ : seq T => (state w r e).2) [::] s0 s1 Ql).
Qed.
Lemma entry_node w r e Q y h : node w r -> drawn e -> law Q -> node (entry w r e Q y) (p h).
Proof.
move=> n de Ql; have [s0 s1 sl] := state_node n de; rewrite /tree_rules.entry.
by have /andP[] := @next_weight01 _ _ (fun _ => (state w r e).2) (fun _ => sl) [::] _ Q y s0 Ql.
Qed.
Lemma below_node w r e Q y h : node w r -> drawn e -> law Q -> node (below w r e Q y) (p h).
Proof.
by move=> n de Ql; rewrite /tree_rules.below; case: traversal; [exact: entry_node | split; rewrite ?ler01].
Qed.

(* A deeper child changes the state of no node but its own. *)
Lemma state_deeper w r i a Q x f : state w r (add_child (i :: a) Q x f) = state w r f.
Proof. by elim: f i => [//|e ih Q' y f' _] [|i] //=; rewrite ih. Qed.

Let mean_one Q (c : R) : law Q -> \sum_x Q x * c = c.
Proof. by move=> [_ q1]; rewrite -mulr_suml q1 mul1r. Qed.

(* A leaf as the youngest child of h. *)
Definition through h x z : R := match z with [::] => 1 | c :: z' => if c == x then in_sequence p (rcons h c) z' else 0 end.
Lemma in_sequence_goes_on h z : goes_on h (p h) z = in_sequence p h z.
Proof. by case: z. Qed.
Lemma leafE h w r f Q x z : let s := state w r f in let v := entry w r f Q x in
  text h w r (Child f Q x Bare) z = accepted h w r f z + refused h w r f * (v * through h x z
    + (1 - v) * (test (real R) (index_enum T) (fun _ => s.2) [::] s.1 Q
      * goes_on h (following (real R) (index_enum T) (fun _ => s.2) [::] s.1 Q) z)).
Proof.
rewrite /tree_rules.text /= -addrA -mulrA -mulrDr; congr (_ + _ * (_ + _)).
  rewrite /tree_rules.below /through; case: traversal; case: z => [|c z] //=; rewrite ?add0r ?mul1r ?mulr1 //.
    by case: eqP => [->|_]; rewrite ?mulr0 // ?add0r ?mul1r in_sequence_goes_on.
  by case: eqP => [->|_]; rewrite ?mulr0 // ?add0r ?mul1r in_sequence_goes_on.
by case: traversal; rewrite ?mul1r.
Qed.
Lemma leaf_refusedE h w r f Q x : let s := state w r f in let v := entry w r f Q x in
  refused h w r (Child f Q x Bare) = refused h w r f * (1 - v).
Proof. by rewrite /=; case: traversal; rewrite ?mul1r. Qed.

Section Leaf.
Variables (h : seq T) (w : R) (r Q : T -> R) (f : forest R T).
Hypotheses (n : node w r) (df : drawn f) (Ql : law Q).
Let s := state w r f.
Let s0 : 0 <= s.1. Proof. by have [] := state_node n df. Qed.
Let s1 : s.1 <= 1. Proof. by have [] := state_node n df. Qed.
Let sl : forall h : seq T, law s.2. Proof. by have [_ _ l _] := state_node n df. Qed.

Lemma leaf_text z : \sum_x Q x * text h w r (Child f Q x Bare) z = text h w r f z.
Proof.
transitivity (\sum_x (Q x * accepted h w r f z + refused h w r f * (Q x * (let v := entry w r f Q x in v * through h x z
  + (1 - v) * (test (real R) (index_enum T) (fun _ => s.2) [::] s.1 Q
    * goes_on h (following (real R) (index_enum T) (fun _ => s.2) [::] s.1 Q) z))))).
  by apply: eq_bigr => x _; rewrite leafE; cbv zeta; rewrite [LHS]mulrDr; congr (_ + _); exact: mulrCA.
rewrite big_split /= mean_one // -mulr_sumr; congr (_ + _ * _).
rewrite -/s; case: z => [|c z].
  rewrite [RHS]/= /tree_rules.goes_on [RHS]mulr1 -[RHS](ladder_passes sl [::] s0 s1 Ql).
  by apply: eq_bigr => x _; rewrite /through /= !mulr1.
rewrite [RHS](_ : _ = s.1 * (s.2 c * in_sequence p (rcons h c) z)) // -[RHS](ladder_emits sl [::] c (in_sequence p (rcons h c) z) s0 s1 Ql); apply: eq_bigr => x _.
by rewrite /through /tree_rules.goes_on /=; case: eqP => _; rewrite ?mulr0 !mulrA.
Qed.

Lemma leaf_refused : \sum_x Q x * (refused h w r (Child f Q x Bare) * (1 - (state w r (Child f Q x Bare)).1))
  = refused h w r f * (1 - s.1).
Proof.
under eq_bigr do rewrite leaf_refusedE /= -mulrA mulrCA; rewrite -mulr_sumr; congr (_ * _).
have e := ladder_passes sl [::] s0 s1 Ql; have q1 := proj2 Ql.
rewrite -[X in _ = X - _]q1 -[in RHS]e -sumrB; apply: eq_bigr => x _ /=.
rewrite -/s /tree_rules.entry -/s; set v := path_rules.next_weight _ _ _ _ _ _; set t := test _ _ _ _ _ _; ring.
Qed.
End Leaf.

(* A child anywhere else. *)
Lemma add_childE Q x f : add_child [::] Q x f = Child f Q x Bare. Proof. by case: f. Qed.
Let mean_scale Q (F : T -> R) c b : \sum_x Q x * F x = b -> \sum_x Q x * (c * F x) = c * b.
Proof. by move=> <-; rewrite mulr_sumr; apply: eq_bigr => x _; exact: mulrCA. Qed.
Let mean_add Q (F G : T -> R) b c : \sum_x Q x * F x = b -> \sum_x Q x * G x = c -> \sum_x Q x * (F x + G x) = b + c.
Proof. by move=> <- <-; rewrite -big_split; apply: eq_bigr => x _; rewrite mulrDr. Qed.
Let mean_right Q (F : T -> R) c b : \sum_x Q x * F x = b -> \sum_x Q x * (F x * c) = b * c.
Proof. by move=> <-; rewrite mulr_suml; apply: eq_bigr => x _; rewrite mulrA. Qed.

Section More.
Variable Q : T -> R.
Hypothesis Ql : law Q.

Definition deeper f := forall h w r i a z, node w r ->
  \sum_x Q x * accepted h w r (add_child (i :: a) Q x f) z = accepted h w r f z
  /\ \sum_x Q x * refused h w r (add_child (i :: a) Q x f) = refused h w r f.

Lemma more_text f h w r a z : deeper f -> drawn f -> node w r ->
  \sum_x Q x * text h w r (add_child a Q x f) z = text h w r f z.
Proof.
move=> d df n; case: a => [|i a]; first by under eq_bigr do rewrite add_childE; exact: leaf_text.
have [e1 e2] := d h w r i a z n; rewrite /tree_rules.text; under eq_bigr do rewrite state_deeper.
by apply: mean_add => //; exact: mean_right.
Qed.
Lemma more_refused f h w r a : deeper f -> drawn f -> node w r ->
  \sum_x Q x * (refused h w r (add_child a Q x f) * (1 - (state w r (add_child a Q x f)).1))
  = refused h w r f * (1 - (state w r f).1).
Proof.
move=> d df n; case: a => [|i a]; first by under eq_bigr do rewrite add_childE; exact: leaf_refused.
have [_ e2] := d h w r i a [::] n; under eq_bigr do rewrite state_deeper.
exact: mean_right.
Qed.

Lemma all_deeper f : drawn f -> deeper f.
Proof.
elim: f => [_|e ihe Q' y f' ih [Q'l de df']] h w r i a z n; first by case: i => [|i]; split; rewrite mean_one.
have {}ihe := ihe de; have {}ih := ih df'.
case: i => [|i].
  have nb := below_node y (rcons h y) n de Q'l; have ne := entry_node y (rcons h y) n de Q'l.
  split => /=.
    apply: mean_add; first by rewrite mean_one.
    apply: mean_scale; have t z' := more_text (rcons h y) a z' ih df' nb.
    case: traversal t => t; last apply: mean_scale; case: z => [|c z]; try exact: t.
      by case: eqP => _; [exact: t | rewrite mean_one].
    by case: eqP => _; [exact: t | rewrite mean_one].
  apply: mean_scale; have u := more_refused (rcons h y) a ih df' ne.
  by case: traversal u => u; [exact: u | rewrite mean_one].
have [e1 e2] := ihe h w r i a z n.
have se x : entry w r (add_child (i :: a) Q x e) Q' y = entry w r e Q' y by rewrite /tree_rules.entry state_deeper.
have sb x : below w r (add_child (i :: a) Q x e) Q' y = below w r e Q' y by rewrite /tree_rules.below se.
split => /=; first by under eq_bigr do rewrite se sb; apply: mean_add => //; exact: mean_right.
by under eq_bigr do rewrite se; exact: mean_right.
Qed.
End More.

Theorem one_more_child a Q f z : law Q -> drawn f ->
  \sum_x Q x * tree_text (real R) (index_enum T) p traversal (add_child a Q x f) z
  = tree_text (real R) (index_enum T) p traversal f z.
Proof.
by move=> Ql df; apply: more_text => //; [exact: all_deeper | split; rewrite ?ler01].
Qed.

(* All draws are by laws. *)
Fixpoint by_laws (d : drafting R T) : Prop :=
  match d with Stop => True | Draw _ Q next => law Q /\ forall x, by_laws (next x) | Coin _ d1 d2 => by_laws d1 /\ by_laws d2 end.
Lemma drawn_more a Q x f : law Q -> drawn f -> drawn (add_child a Q x f).
Proof.
move=> Ql; elim: f a => [|e ihe Q' y f' ih] [|[|i] a] //= [Q'l de df]; split=> //; [exact: ih | exact: ihe].
Qed.

Theorem adaptive_martingale d f z : by_laws d -> drawn f ->
  adaptive_output (real R) (index_enum T) p traversal d f z = tree_text (real R) (index_enum T) p traversal f z.
Proof.
rewrite /adaptive_output; elim: d f => [//|a Q next ih|t d1 ih1 d2 ih2] f /= [l1 l2] df; last first.
  by rewrite ih1 // ih2 // -mulrDl addrC subrK mul1r.
rewrite sumE -[RHS](one_more_child a z l1 df); apply: eq_bigr => x _ /=.
by rewrite ih //; exact: drawn_more.
Qed.

Theorem adaptive_lossless d z : by_laws d -> adaptive_output (real R) (index_enum T) p traversal d Bare z = in_sequence p [::] z.
Proof.
move=> l; rewrite adaptive_martingale // /tree_text /tree_rules.text /= add0r !mul1r.
exact: in_sequence_goes_on.
Qed.
End Adaptive.

Section Both.
Variables (R : realFieldType) (T : finType) (p : seq T -> T -> R).
Hypothesis p_law : forall h, law (p h).
Implicit Types (z : seq T) (d : drafting R T).

Theorem traversal_adaptive_lossless d z : by_laws d ->
  adaptive_output (real R) (index_enum T) p true d Bare z = in_sequence p [::] z.
Proof. exact: adaptive_lossless. Qed.
Theorem recursive_rejection_adaptive_lossless d z : by_laws d ->
  adaptive_output (real R) (index_enum T) p false d Bare z = in_sequence p [::] z.
Proof. exact: adaptive_lossless. Qed.
End Both.

(** K paths are such a tree. *)
Section Paths.
Variables (R : realFieldType) (T : finType) (p q : seq T -> T -> R).
Implicit Types (h x z : seq T) (w : R) (r : T -> R) (xs : seq (seq T)) (f : forest R T).
Notation text := (text (real R) (index_enum T) p true).
Notation refused := (refused (real R) (index_enum T) p true).
Notation accepted := (accepted (real R) (index_enum T) p true).
Notation state := (state (real R) (index_enum T)).

Fixpoint chain h x : forest R T := if x is y :: x' then Child Bare (q h) y (chain (rcons h y) x') else Bare.
Fixpoint with_paths f xs : forest R T :=
  if xs is (y :: x) :: xs' then with_paths (Child f (q [::]) y (chain [:: y] x)) xs' else f.

Lemma chain_block h w x :
  refused h w (p h) (chain h x) * (1 - (state w (p h) (chain h x)).1) = 1 - block_passes (real R) (index_enum T) p q h w x
  /\ forall z, size z = (size x).+1 -> text h w (p h) (chain h x) z = block_emits (real R) (index_enum T) p q h w x z.
Proof.
elim: x h w => [|y x ih] h w.
  by split=> [|z sz]; rewrite ?mul1r // /tree_rules.text /= add0r !mul1r in_sequence_goes_on.
set v := next_weight (real R) p h w (q h) y; have [r e] := ih (rcons h y) v.
pose t := test (real R) (index_enum T) p h w (q h); set l := block_passes (real R) (index_enum T) p q (rcons h y) v x in r *.
have re : refused h w (p h) (chain h (y :: x)) = 1 - l by rewrite -r [LHS]/= mul1r.
split=> [|[|c z] // [sz]].
  rewrite re (_ : block_passes _ _ _ _ _ _ (y :: x) = l + (1 - l) * t) // (_ : (state _ _ _).1 = t) //; ring.
rewrite /tree_rules.text re [accepted _ _ _ _ _]/= add0r mul1r [RHS]/=; congr (_ + _); first by case: eqP => // _; rewrite -e.
by congr (_ * _); exact: mulrA.
Qed.

Lemma with_paths_text w r xs f L c z : size z = L.+1 -> (forall x, x \in xs -> size x = L.+1) ->
  text [::] w r (with_paths f xs) (c :: z) = accepted [::] w r f (c :: z)
    + refused [::] w r f * traversal_emits (real R) (index_enum T) p q (state w r f).2 (state w r f).1 xs (c :: z).
Proof.
move=> sz; elim: xs f => [//|x xs ih] f sx; have := sx x; rewrite inE eqxx => /(_ isT); case: x sx => [//|y x] sx [sx'].
rewrite [with_paths _ _]/= ih => [|x' xx]; last by apply: sx; rewrite inE xx orbT.
have [r' e] := chain_block [:: y] (entry (real R) (index_enum T) w r f (q [::]) y) x.
rewrite [accepted _ _ _ (Child _ _ _ _) _]/= [refused _ _ _ (Child _ _ _ _)]/= -addrA -mulrA -mulrDr; congr (_ + _ * _).
rewrite r' [RHS]/=; congr (_ + _).
by case: eqP => // _; rewrite -e ?sx'.
Qed.

Theorem traversal_of_paths xs L z : size z = L.+2 -> (forall x, x \in xs -> size x = L.+1) ->
  traversal_emits (real R) (index_enum T) p q (p [::]) 1 xs z = tree_text (real R) (index_enum T) p true (with_paths Bare xs) z.
Proof.
by case: z => [//|c z] [sz] sx; rewrite /tree_text (with_paths_text _ _ _ _ sz sx) /= add0r mul1r.
Qed.
End Paths.
Print Assumptions one_more_child.
Print Assumptions adaptive_lossless.
Print Assumptions traversal_adaptive_lossless.
Print Assumptions recursive_rejection_adaptive_lossless.
Print Assumptions traversal_of_paths.
