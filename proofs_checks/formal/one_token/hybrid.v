(* Optimal selection for hybrid drafts.

   The first j drafts are given tokens T (the draft model's top tokens, or any others), the other r are drawn from the draft's
   law outside T, q' = norm(q outside T).
   THEOREM (optimal_hybrid_selection). For every target p, every such T and every r >= 1: optimal selection among the r draws,
   with q' in the place of q and r in that of k, is lossless for these drafts, and accepts exactly
       1 + p(H) - Q(all drafts in H)   where H is T with a prefix of the other tokens by p/q'.
   By the bound no lossless rule accepts more. What the residual puts on T counts as accepted: T was drafted.

   Any finite set of tokens, any real field, any j and T. *)

From Draft Require Import head problem bound optimal.

Section Hybrid.
Variables (R : realFieldType) (T : finType) (p q : T -> R) (tops : seq T) (r : nat).
Notation hybrid := (hybrid (real R)).
Notation optimal := (optimal (real R) (index_enum T)).
Notation optimal_hybrid := (optimal_hybrid (real R) (index_enum T)).
Notation k := (size tops + r)%N.

(* The draws outside the given tokens. *)
Hypotheses (p_law : law p) (q_law : law q) (r_pos : (0 < r)%N) (q_outside : forall y, y \in tops -> q y = 0).

Lemma sum_hybrid (f : seq T -> R) : \sum_(x <- drafts k) hybrid q tops x * f x = \sum_(x <- drafts r) iid q x * f (tops ++ x).
Proof.
elim: tops f => [|y ts ih] f; first by apply: eq_bigr => x _; rewrite /hybrid /= take0 drop0 eqxx.
rewrite [LHS](@sum_drafts R T) (bigD1 y) //= [X in _ + X]big1 ?addr0 => [|z /negbTE zy]; last first.
  by apply: big1 => x _; rewrite /hybrid /= eqseq_cons zy mul0r.
rewrite -(ih (fun x => f (y :: x))); apply: eq_bigr => x _.
by rewrite /hybrid /= eqseq_cons eqxx.
Qed.

Lemma hybrid_law : draft_law k (hybrid q tops).
Proof.
have [Q0 Q1] := iid_law r q_law; split=> [x|]; first by rewrite /hybrid; case: ifP.
have := sum_hybrid (fun _ => 1); under eq_bigr do rewrite mulr1; move=> ->.
by rewrite -[RHS]Q1; apply: eq_bigr => x _; rewrite mulr1.
Qed.

Lemma sum_hybrid_in (P : pred (seq T)) (f : seq T -> R) :
  \sum_(x <- drafts k | P x) hybrid q tops x * f x = \sum_(x <- drafts r | P (tops ++ x)) iid q x * f (tops ++ x).
Proof.
rewrite big_mkcond [RHS]big_mkcond /=; transitivity (\sum_(x <- drafts k) hybrid q tops x * (if P x then f x else 0)).
  by apply: eq_bigr => x _; case: ifP; rewrite ?mulr0.
by rewrite sum_hybrid; apply: eq_bigr => x _; case: ifP; rewrite ?mulr0.
Qed.

Lemma hybrid_inside H : inside k (hybrid q tops) H = if all H tops then mass_of q H ^+ r else 0.
Proof.
have := sum_hybrid_in (all H) (fun _ => 1); under eq_bigr do rewrite mulr1.
rewrite /inside => ->; under eq_bigr do rewrite mulr1; under eq_bigl do rewrite all_cat.
by case: (all H tops); [rewrite -iid_inside | rewrite big_pred0].
Qed.

Let rule := optimal_hybrid p q tops r.
Let draws := optimal p q r.

Lemma hybrid_row x y : row (tops ++ x) (rule (tops ++ x)) y = row x (draws x) y.
Proof.
rewrite !rowE /rule /optimal_hybrid drop_size_cat //=; congr (_ + (1 - _) * _); last first.
  by rewrite big_cat /= big_nseq iter_addr_0 mul0rn add0r.
elim: tops => [//|a ts ih] /=; rewrite big_cons ih /=.
by case: ifP; rewrite add0r.
Qed.

Lemma never_drafted x : iid q x != 0 -> forall y, y \in x -> y \notin tops.
Proof.
elim: x => [//|a x ih] /=; rewrite mulf_eq0 negb_or => /andP[qa qx] y; rewrite inE => /orP[/eqP->|]; last exact: ih.
by apply: contra qa => /q_outside->.
Qed.

Theorem optimal_hybrid_selection :
  [/\ proper k (hybrid q tops) rule, lossless k (hybrid q tops) p rule,
      exists H, acceptance k (hybrid q tops) rule = 1 + mass_of p H - inside k (hybrid q tops) H
    & forall other, proper k (hybrid q tops) other -> lossless k (hybrid q tops) p other ->
        acceptance k (hybrid q tops) other <= acceptance k (hybrid q tops) rule].
Proof.
have p1 : \sum_y p y <= 1 by rewrite (proj2 p_law).
have [draws_ok draws_out [top e]] := optimal_selection (proj1 p_law) p1 q_law r_pos (by_ratio_order p q) p_law.
rewrite /= in e.
have ok : proper k (hybrid q tops) rule.
  move=> x xk; rewrite /hybrid; case: (take _ x =P tops) => [tx|_]; last by rewrite eqxx.
  have e' : x = tops ++ drop (size tops) x by rewrite -{1}(cat_take_drop (size tops) x) tx.
  move=> ne; rewrite e'; apply: (law_eq (q := row (drop (size tops) x) (draws (drop (size tops) x)))).
    by move=> y; exact: hybrid_row.
  by apply: draws_ok => //; rewrite mem_drafts size_drop; move: xk; rewrite mem_drafts => /eqP->; rewrite addKn.
have out : lossless k (hybrid q tops) p rule.
  move=> y; rewrite -(draws_out y) !outputE sum_hybrid; apply: eq_bigr => x _.
  by rewrite hybrid_row.
pose H y := (y \in tops) || (index y (by_ratio (real R) (index_enum T) p q) < top)%N.
have all_in : all H tops by apply/allP => y yt; rewrite /H yt.
have lower : 1 + mass_of p H - inside k (hybrid q tops) H <= acceptance k (hybrid q tops) rule.
  have -> : acceptance k (hybrid q tops) rule = \sum_(y | y \in tops) p y + acceptance r (iid q) draws.
    under [\sum_(y | y \in tops) p y]eq_bigr do rewrite -draws_out outputE.
    rewrite exchange_big !acceptanceE sum_hybrid -big_split /=; apply: eq_bigr => x _.
    have [->|ne] := eqVneq (iid q x) 0; first by rewrite !mul0r big1 ?addr0 // => y _; rewrite mul0r.
    rewrite -mulr_sumr -mulrDr; congr (_ * _); under [LHS]eq_bigr do rewrite hybrid_row.
    rewrite (bigID (fun y => y \in tops)) /=; congr (_ + _); apply: eq_bigl => y; rewrite mem_cat.
      by case: (y \in tops); rewrite ?andbF.
    case: (boolP (y \in x)) => yx; rewrite ?orbT ?orbF ?(never_drafted ne yx) //.
    by rewrite andbN.
  rewrite e hybrid_inside all_in.
  have -> : mass_of q H = mass_of q (fun y => (index y (by_ratio (real R) (index_enum T) p q) < top)%N).
    rewrite /mass_of big_mkcond [RHS]big_mkcond; apply: eq_bigr => y _; rewrite /H.
    by case: (boolP (y \in tops)) => [/q_outside->|//]; rewrite /= if_same.
  set H' := fun y => _; suff : mass_of p H <= \sum_(y | y \in tops) p y + mass_of p H' by lra.
  rewrite /mass_of big_mkcond [X in _ <= X + _]big_mkcond [X in _ <= _ + X]big_mkcond -big_split; apply: ler_sum => y _.
  by rewrite /H /H' /=; have := proj1 p_law y; case: (y \in tops); case: (index _ _ < _)%N => /=; lra.
have best other : proper k (hybrid q tops) other -> lossless k (hybrid q tops) p other ->
    acceptance k (hybrid q tops) other <= acceptance k (hybrid q tops) rule.
  by move=> ok' out'; apply: le_trans lower; exact: (bound hybrid_law ok' out').
split=> //; exists H; apply/eqP; rewrite eq_le lower andbT.
exact: (bound hybrid_law ok out).
Qed.

End Hybrid.

(* Where the draws come from the draft's law without the given tokens. *)
Theorem optimal_hybrid_rule (R : realFieldType) (T : finType) (p q : T -> R) (tops : seq T) r y0 :
  law p -> law q -> (0 < r)%N -> y0 \notin tops -> 0 < q y0 ->
  let next := outside (real R) (index_enum T) q tops in
  let Q := hybrid (real R) next tops in
  let rule := optimal_hybrid (real R) (index_enum T) p next tops r in
  [/\ lossless (size tops + r) Q p rule, proper (size tops + r) Q rule
    & forall other, proper (size tops + r) Q other -> lossless (size tops + r) Q p other ->
        acceptance (size tops + r) Q other <= acceptance (size tops + r) Q rule].
Proof.
move=> pl ql r0 y0t qy next Q rule; have v0 y : 0 <= (if y \in tops then 0 else q y) :> R by case: ifP => // _; case: ql.
have nl : law next by apply: norm_law => //.
have zero y : y \in tops -> next y = 0.
  move=> yt; rewrite /next /outside normE // yt mul0r; case: eqP => // /psumr_eq0P h.
  by have := h (fun y _ => v0 y) y0 isT; rewrite (negbTE y0t) => e; rewrite e ltxx in qy.
by have [] := optimal_hybrid_selection pl nl r0 zero.
Qed.

Print Assumptions optimal_hybrid_selection.
Print Assumptions optimal_hybrid_rule.
