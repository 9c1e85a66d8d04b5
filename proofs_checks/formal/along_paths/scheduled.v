(* Scheduled verification: what may decide whether a position is drafted at all.

   A batch of texts is drafted draw by draw. For which text the next draw is, where on its tree, by which law, and whether there is a next
   draw at all, are any functions of all that was drafted before, for this text and for the others, and of coins (tree_rules.v). So
   drafts may be cut across requests by any measure of confidence that does not look at the token that is cut, nor at what is drawn below.
   THEOREM (one_more_draw). One draw more: the mean over it of the joint law of all texts is what it was.
   THEOREM (scheduled_lossless). The texts that come out are independent, each with its own target's law, under Traversal and under
   recursive rejection. (refuted_trees.v: a schedule that looks at the token that it cuts changes the law.) *)

From Draft Require Import head problem bound sampling path_rules block tree_rules adaptive_trees.

Section Scheduled.
Variables (R : realFieldType) (T : finType) (p : nat -> seq T -> T -> R) (traversal : bool) (texts : seq nat).
Hypotheses (p_law : forall b h, law (p b h)) (texts_uniq : uniq texts).
Implicit Types (f : nat -> forest R T) (z : nat -> seq T) (a : seq nat) (Q : T -> R) (d : drafting R T).
Notation tree_text b := (tree_text (real R) (index_enum T) (p b) traversal).
Notation all_texts := (all_texts (real R) (index_enum T) p traversal texts).
Notation scheduled_output := (scheduled_output (real R) (index_enum T) p traversal texts).

Lemma all_textsE f z : all_texts f z = \prod_(b <- texts) tree_text b (f b) (z b).
Proof. by rewrite /tree_rules.all_texts; elim: texts => [|b s ih]; rewrite /= ?big_nil ?big_cons ?ih. Qed.

Theorem one_more_draw a Q f z : law Q -> (forall b, drawn (f b)) ->
  \sum_x Q x * all_texts (grown a Q x f) z = all_texts f z.
Proof.
move=> Ql df; under eq_bigr do rewrite all_textsE; rewrite all_textsE; set c := head 0%N a.
have other b x : b != c -> grown a Q x f b = f b by rewrite /grown => /negbTE->.
have [inb|out] := boolP (c \in texts); last first.
  rewrite -[RHS]mul1r -(proj2 Ql) mulr_suml; apply: eq_bigr => x _; congr (_ * _); apply: eq_big_seq => b bt.
  by rewrite other //; apply: contra out => /eqP <-.
rewrite [RHS](bigD1_seq c) // -[RHS]/(tree_text c (f c) (z c) * _) -(one_more_child traversal (p_law c) (behead a) (z c) Ql (df c)) mulr_suml; apply: eq_bigr => x _.
rewrite (bigD1_seq c) // -[X in _ * X]/(_ * _) mulrA; congr (_ * _ * _); first by rewrite /grown eqxx.
by apply: eq_bigr => b bc; rewrite other.
Qed.

Lemma scheduled_martingale d f z : by_laws d -> (forall b, drawn (f b)) -> scheduled_output d f z = all_texts f z.
Proof.
elim: d f => [//|a Q next ih|t d1 ih1 d2 ih2] f /= [l1 l2] df; last first.
  by rewrite ih1 // ih2 // -mulrDl addrC subrK mul1r.
rewrite sumE -[RHS](one_more_draw a z l1 df); apply: eq_bigr => x _ /=; rewrite ih // => b.
by rewrite /grown; case: ifP => // _; exact: drawn_more.
Qed.

Theorem scheduled_lossless d z : by_laws d ->
  scheduled_output d (fun _ => Bare) z = \prod_(b <- texts) in_sequence (p b) [::] (z b).
Proof.
move=> l; rewrite scheduled_martingale // all_textsE; apply: eq_bigr => b _.
by rewrite /tree_rules.tree_text /tree_rules.text /= add0r !mul1r; case: (z b).
Qed.
End Scheduled.

Print Assumptions one_more_draw.
Print Assumptions scheduled_lossless.
