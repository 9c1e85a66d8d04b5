(* Selection that was planned for another target.

   THEOREM (best_nearby). The best acceptance moves by at most the total variation of the targets, for every law of the drafts.
   THEOREM (planned_for_another). A draft selected as is best for p', coupled with p: lossless for p, and at least the best acceptance for p
   less 2 TV(p, p'). So classes of tokens, or levels planned once for many targets, cost acceptance and never validity.

   Any law of k >= 1 drafts, any finite set of tokens, any real field. *)

From Draft Require Import head problem bound couple hall lossy_frontier.

Section Nearby.
Variables (R : realFieldType) (T : finType) (k : nat) (Q : seq T -> R).
Hypotheses (Q_law : draft_law k Q) (k_pos : (0 < k)%N).
Notation best := (least_cut (real R) (index_enum T) k Q).

Theorem best_nearby (p p' : T -> R) : law p -> law p' -> best p <= best p' + total_variation p p'.
Proof.
move=> pl pl'; have [H ->] := least_cut_attained k Q p'.
by apply: le_trans (least_cut_le k Q p H) _; have := mass_within p p' H; lra.
Qed.

Theorem planned_for_another (p p' : T -> R) w : law p -> law p' -> selector k Q w ->
  \sum_y Num.min (p' y) (selected k Q w y) = best p' ->
  lossless k Q p (selecting k Q p w) /\
  best p - 2%:R * total_variation p p' <= acceptance k Q (selecting k Q p w).
Proof.
move=> pl pl' sel e; have [_ out acc] := selecting_rule Q_law pl sel; split=> //; apply: le_trans acc.
have h : \sum_y Num.min (p' y) (selected k Q w y) <= \sum_y Num.min (p y) (selected k Q w y) + total_variation p' p.
  rewrite -big_split; apply: ler_sum => y _ /=; have := excess_ge0 p' p y.
  have : p' y - p y <= excess p' p y by rewrite excessE le_maxr lexx.
  by case: (leP (p' y) (selected k Q w y)); case: (leP (p y) (selected k Q w y)) => *; lra.
have s : total_variation p' p = total_variation p p'.
  have [[_ p1] [_ p1']] := (pl, pl'); rewrite /total_variation.
  have d : \sum_y (excess p' p y - excess p p' y) = \sum_y (p' y - p y).
    by apply: eq_bigr => y _; rewrite !excess_min minC; lra.
  by move: d; rewrite !sumrB p1 p1'; lra.
have := best_nearby pl pl'; lra.
Qed.
End Nearby.

Print Assumptions best_nearby.
Print Assumptions planned_for_another.
